"""Votes to beliefs: counts votes, and heeds what users say of tasks."""

import asyncio

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.ends import EndsAsker
from pipeline.agents.estimates_follower import EstimatesFollower
from pipeline.agents.publisher import Group, Publisher
from pipeline.agents.rejects import Rejects
from pipeline.batched.batch import Batch
from pipeline.records.bad import BadRecord
from pipeline.records.tasks import task_parser
from pipeline.records.traces import traced_tasks
from pipeline.stages.taken import Forwarded
from pipeline.stages.task_stage import TaskStage

LABELS_AT_ONCE = 20_000  # weighed anew before others get a turn
RECORDS_AT_ONCE = 16  # of votes or descriptions; one of votes has up to some thousand


class TaskAgent:
    """The loop around `TaskStage`, and the state behind the tasks table."""

    name = "task"

    def __init__(
        self,
        stage: TaskStage,
        publisher: Publisher,
        follower: EstimatesFollower,
        asker: EndsAsker,
        rejects: Rejects,
    ) -> None:
        self.ask = asker.ask
        self.rejects = rejects
        self.stage = stage
        self.publisher = publisher
        self.follower = follower
        self.parse = task_parser(stage.crowd.classes)

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""
        self.stage.open(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.follower.exchange.release(partition)
        self.stage.close(partition)
        self.follower.hear_next_owner(partition)

    def restore(self, partition: int, records: list[ConsumerRecord], *, sure: bool) -> int:
        """Apply records of the evidence topic; those that are not ours go to the dead letters."""
        values = [(record.timestamp, record.value) for record in records]
        restored = self.stage.restore(partition, values, sure=sure)
        for place, why in restored.rejected.items():
            self.rejects.add(records[place], why)
        return restored.records

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Tell everybody of these partitions, and hear of the others.

        Posteriors that a crash can have kept from their topic are published again, and those of
        tasks that a stop rule closes which the last owner did not have.
        """
        groups = self.publisher.groups
        await self._rest()
        groups.filling.tasks.update(self.stage.ready(partitions, generation).tolist())
        groups.filling.tasks.update(self.publisher.withheld_tasks.take().tolist())
        self.stage.spent = self.stage.rules.is_spent(self.stage.crowd.labels)
        self.publisher.apply_rules_to(partitions)
        self.follower.exchange.update_sums()
        groups.filling.tells_all = True
        groups.notify()
        if partitions:
            await self.follower.hear_of_all()

    async def _rest(self) -> None:
        """Weigh anew what was restored, as far as it is known now; others get a turn."""
        engine = self.stage.crowd.engine
        more = engine.is_settled
        while more:
            more = engine.refresh_due(LABELS_AT_ONCE)
            await asyncio.sleep(0)

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take the records of each batch, and publish the posteriors in groups."""
        groups = self.publisher.groups
        tasks = self.publisher.topics.tasks.name
        async for batch in stream:
            for tp, records in batch.parts.items():
                for start in range(0, len(records), RECORDS_AT_ONCE):
                    some = records[start : start + RECORDS_AT_ONCE]
                    if tp.topic == tasks:
                        group = await groups.acquire()
                        for record in some:
                            self._describe(record, group)
                        groups.notify()
                    else:
                        await self._count_all(tp.partition, some)
            groups.notify(batch)

    async def _count_all(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Count records of votes; asks where labels end if they tell of labels beyond that."""
        sure = False
        while records:
            group = await self.publisher.groups.acquire()
            done = self._count(partition, records, group, sure=sure)
            self.publisher.groups.notify()
            records = records[done:]
            if records:
                await self.ask()
                sure = True

    def _count(
        self, partition: int, records: list[ConsumerRecord], group: Group, *, sure: bool
    ) -> int:
        values = [record.value for record in records]
        counted = self.stage.count(partition, values, sure=sure)
        group.took(votes=counted.votes)
        group.fenced_votes += counted.fenced
        group.rejected += [(records[place], bad) for place, bad in counted.outcome.rejected.items()]
        group.evidence += [(partition, records[place].value) for place in counted.new]
        for place in counted.new:
            if records[place].headers:
                self._follow_traces(records[place])
        group.timestamps.append(counted.timestamps)
        group.tasks.update(counted.tasks.tolist())
        return counted.outcome.records

    def _follow_traces(self, record: ConsumerRecord) -> None:
        """Let the posteriors carry the traces that came with votes."""
        crowd = self.stage.crowd
        for task, traceparent in traced_tasks(record.headers):
            number = crowd.tasks.known(task)
            if number is not None and crowd.is_own_task([number])[0]:
                self.publisher.traces.follow(number, traceparent)

    def _describe(self, record: ConsumerRecord, group: Group) -> None:
        group.took()
        try:
            description = self.parse(record.key, record.value)
        except BadRecord as bad:
            group.rejected.append((record, bad))
            return
        task = description["task"]
        home = self.stage.crowd.home_of(task)
        if home != record.partition:
            group.forwarded.append(Forwarded(record, task, home))
            return
        number = self.stage.describe(home, description, record.offset, record.timestamp)
        if number is not None:
            group.tasks.add(number)
