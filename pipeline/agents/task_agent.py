"""Votes to beliefs: counts votes, and applies the descriptions of tasks."""

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.ends import EndsAsker
from pipeline.agents.estimates_follower import EstimatesFollower
from pipeline.agents.group import Group
from pipeline.agents.publisher import Publisher
from pipeline.agents.rejects import Rejects
from pipeline.agents.retry import retry
from pipeline.agents.unread_votes import unread_votes
from pipeline.batched.batch import Batch
from pipeline.kafka.errors import ClusterError
from pipeline.records.bad import BadRecord
from pipeline.records.tasks import task_parser
from pipeline.records.traces import traced_tasks
from pipeline.settings import Settings
from pipeline.stages.taken import Forwarded
from pipeline.stages.task_stage import TaskStage

RECORDS_AT_ONCE = 16  # of votes or descriptions; a record of votes has up to some thousand


class TaskAgent:
    """The loop around `TaskStage`, and the state behind the tasks table."""

    name = "task"

    def __init__(
        self,
        settings: Settings,
        stage: TaskStage,
        publisher: Publisher,
        follower: EstimatesFollower,
        asker: EndsAsker,
        rejects: Rejects,
    ) -> None:
        self.settings = settings
        self.ask = asker.ask
        self.rejects = rejects
        self.stage = stage
        self.publisher = publisher
        self.follower = follower
        self.parse = task_parser(stage.crowd.classes)

    def open(self, partition: int) -> None:
        """Begin a partition with empty state."""
        self.stage.open(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.follower.exchange.release(partition)
        self.stage.close(partition)
        self.follower.receive_from_next_owner(partition)

    def restore(self, partition: int, records: list[ConsumerRecord], *, sure: bool) -> int:
        """Apply records of the evidence topic; those that sbic did not write are dead letters."""
        values = [(record.timestamp, record.value) for record in records]
        restored = self.stage.restore(partition, values, sure=sure)
        for place, why in restored.rejected.items():
            self.rejects.add(records[place], why)
        return restored.records

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Publish the estimates of these partitions, and wait for those of all others.

        Also publishes posteriors that a crash may have kept from their topic, and those of tasks
        that a stop rule closes which the last owner did not have. At last, votes are counted that
        are not read yet.
        """
        self.stage.ready(partitions, generation)
        self.publisher.publish_tasks(self.publisher.withheld_tasks.take())
        self.stage.check_budget()
        self.publisher.apply_rules_to(partitions)
        self.follower.exchange.update_sums()
        self.publisher.publish_all_estimates()
        if partitions:
            await self.follower.receive_all()
            await retry(lambda: self._count_unread(partitions), on=ClusterError)

    async def _count_unread(self, partitions: set[int]) -> None:
        async for partition, records in unread_votes(self.settings, partitions):
            await self._count_all(partition, records, come_again=True)

    async def run(self, stream: StreamT[Batch]) -> None:
        """Apply the records of each batch, and publish the posteriors in groups."""
        groups = self.publisher.groups
        tasks = self.publisher.topics.tasks.name
        async for batch in stream:
            for tp, records in batch.parts.items():
                if tp.topic == tasks:
                    await self._describe_all(records)
                else:
                    await self._count_all(tp.partition, records)
            groups.notify(batch)

    async def _count_all(
        self, partition: int, records: list[ConsumerRecord], *, come_again: bool = False
    ) -> None:
        """Count records of votes; ask for end offsets if votes are of labels beyond the known.

        Records that `come_again` become dead letters only then.
        """
        sure = False
        while records:
            group = await self.publisher.groups.acquire()
            some = records[:RECORDS_AT_ONCE]
            counted = self.stage.count(partition, [record.value for record in some], sure=sure)
            group.took_votes(partition, some, counted)
            if not come_again:
                for place, why in counted.outcome.rejected.items():
                    group.reject(some[place], why)
            self._follow_traces([some[place] for place in counted.new])
            self.publisher.groups.notify()
            records = records[counted.outcome.records :]
            sure = counted.outcome.records < len(some)
            if sure:
                await self.ask()

    def _follow_traces(self, records: list[ConsumerRecord]) -> None:
        """Let the posteriors carry the traces that came with votes."""
        crowd = self.stage.crowd
        for record in records:
            for task, traceparent in traced_tasks(record.headers) if record.headers else ():
                number = crowd.tasks.known(task)
                if number is not None and crowd.is_own_task([number])[0]:
                    self.publisher.traces.follow(number, traceparent)

    async def _describe_all(self, records: list[ConsumerRecord]) -> None:
        """Apply descriptions of tasks."""
        groups = self.publisher.groups
        for start in range(0, len(records), RECORDS_AT_ONCE):
            group = await groups.acquire()
            for record in records[start : start + RECORDS_AT_ONCE]:
                self._describe(record, group)
            groups.notify()

    def _describe(self, record: ConsumerRecord, group: Group) -> None:
        group.took_description()
        try:
            description = self.parse(record.key, record.value)
        except BadRecord as bad:
            group.reject(record, bad)
            return
        task = description["task"]
        home = self.stage.crowd.home_of(task)
        if home != record.partition:
            group.forwarded.append(Forwarded(record, task, home))
            return
        self.stage.describe(home, description, record.offset, record.timestamp)
