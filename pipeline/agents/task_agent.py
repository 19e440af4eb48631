"""Votes to posteriors: reads votes and tasks, publishes the posterior of each task they changed."""

from collections.abc import Callable

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.dead_letters import DeadLetters
from pipeline.agents.metrics import Metrics
from pipeline.agents.posteriors_follower import PosteriorsFollower
from pipeline.batched.batch import Batch
from pipeline.batched.conveyor import Conveyor, Parcel
from pipeline.batched.producer import NO_HEADERS, BatchProducer, Offsets, Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import Posterior, encode_posterior, parse_posterior
from pipeline.records.tasks import parse_task
from pipeline.records.votes import parse_votes
from pipeline.stages.task_stage import TaskStage
from pipeline.topics import Topics

VOTES_AT_ONCE = 2000


class VoteGroup:
    """The tasks of several partitions that have changed, to be published together."""

    def __init__(self) -> None:
        self.changed: dict[int, dict[str, None]] = {}  # tasks by partition, in order
        self.timestamps: list[int] = []
        self.rejected: list[tuple[ConsumerRecord, BadRecord]] = []
        self.forwarded: list[tuple[ConsumerRecord, bytes, int]] = []  # with task and partition
        self.votes = 0
        self.records = 0
        self.is_full = False

    def change(self, partition: int, tasks: list[str]) -> None:
        """These tasks have changed."""
        self.changed.setdefault(partition, {}).update(dict.fromkeys(tasks))

    def took(self, votes: int, records: int = 0) -> None:
        """So many votes and records of the tasks topic are in it now."""
        self.votes += votes
        self.records += records
        self.is_full = self.votes + self.records >= VOTES_AT_ONCE


class TaskAgent:
    """The loop around `TaskStage`, and the state behind the tasks table.

    The posteriors are the changelog of that table, so a task and its record cannot disagree.
    """

    name = "task"

    def __init__(
        self,
        stage: TaskStage,
        follower: PosteriorsFollower,
        topics: Topics,
        producer: BatchProducer,
        metrics: Metrics,
    ) -> None:
        self.stage = stage
        self.follower = follower
        self.view = follower.view
        self.published: dict[int, int] = {}  # offset of the last posterior, by partition
        self.overwritten: dict[int, dict[str, None]] = {}  # tasks with an older posterior on top
        self.topics = topics
        self.metrics = metrics
        self.dead_letters = DeadLetters(topics.dead_letters.name, metrics)
        self.conveyor = Conveyor(producer, VoteGroup, self.pack)
        self.is_settled: Callable[[], bool] = lambda: True  # no rebalance is under way
        follower.learned = self.check_budget

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""
        self.stage.open(partition)
        self.published[partition] = -1
        self.overwritten[partition] = {}
        self.follower.leave(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.stage.close(partition)
        del self.overwritten[partition]
        self.follower.follow(partition, after=self.published.pop(partition))

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Take up the tasks where their posteriors left them."""
        overwritten = self.overwritten[partition]
        for record in records:
            try:
                posterior = parse_posterior(record.value)
            except BadRecord:
                continue  # written by a stranger
            if self.stage.restore(partition, posterior):
                self.view.learn(posterior, record.offset)
                overwritten.pop(posterior["task"], None)
            else:
                overwritten[posterior["task"]] = None
        self.published[partition] = records[-1].offset

    async def ready(self, partitions: set[int]) -> None:
        """Publish again what a stalled instance has overwritten: readers take the last record.

        And what a stop rule closes that the last owner did not have.
        """
        self.stage.spent = self.stage.rules.is_spent(self.view.labels)
        for partition in partitions:
            changed = [*self.overwritten[partition], *self.stage.settle(partition)]
            self.overwritten[partition] = {}
            if changed:
                self.conveyor.filling.change(partition, changed)
                self.conveyor.load()

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take the records of each batch, and let the conveyor publish the posteriors."""
        async for batch in stream:
            for tp, records in batch.parts.items():
                take = self._describe if tp.topic == self.topics.tasks.name else self._count
                for record in records:
                    group = await self.conveyor.room()
                    take(record, group)
                    self.conveyor.load()
            self.conveyor.load(batch)

    def _count(self, record: ConsumerRecord, group: VoteGroup) -> None:
        try:
            source, votes = parse_votes(record.value)
        except BadRecord as bad:
            group.rejected.append((record, bad))
            return
        counted = self.stage.count(record.partition, source, votes)
        group.change(record.partition, counted.tasks)
        group.timestamps += counted.timestamps
        group.took(len(votes))

    def _describe(self, record: ConsumerRecord, group: VoteGroup) -> None:
        group.took(0, records=1)
        try:
            description = parse_task(record.key, record.value)
        except BadRecord as bad:
            group.rejected.append((record, bad))
            return
        task = description["task"]
        home = self.view.home(task)
        if home != record.partition:
            group.forwarded.append((record, task.encode(), home))
        elif self.stage.describe(home, description, record.offset, record.timestamp):
            group.change(home, [task])

    def check_budget(self) -> None:
        """Close the open tasks of this instance when all instances together have their labels."""
        spent = self.stage.rules.is_spent(self.view.labels)
        if spent is self.stage.spent or not self.is_settled():
            return
        self.stage.spent = spent
        for partition in self.stage.partitions:
            if closed := self.stage.settle(partition):
                self.conveyor.filling.change(partition, closed)
                self.conveyor.load()

    def pack(self, group: VoteGroup) -> Parcel:
        """The posterior of each task that changed, once."""
        outbox = Outbox()
        for record, why in group.rejected:
            self.dead_letters.add(outbox, record, why)
        for record, task, home in group.forwarded:
            row = (task, record.value, record.timestamp, list(record.headers))
            outbox.add(self.topics.tasks.name, home, row)
        name = self.topics.posteriors.name
        posteriors = {
            partition: [self.stage.posterior(partition, task) for task in tasks]
            for partition, tasks in group.changed.items()
            if tasks
        }
        for partition, changed in posteriors.items():
            outbox[name, partition] = [
                (posterior["task"].encode(), encode_posterior(posterior), None, NO_HEADERS)
                for posterior in changed
            ]

        def published(offsets: Offsets, seconds: float) -> None:
            for partition, changed in posteriors.items():
                self._learn(partition, changed, offsets[name, partition])
            self.metrics.took(self.name, group.votes, seconds)
            self.metrics.votes.inc(group.votes)
            self.metrics.posteriors.inc(sum(map(len, posteriors.values())))
            self.metrics.dated(group.timestamps)
            self.check_budget()

        return Parcel(outbox, published)

    def _learn(self, partition: int, posteriors: list[Posterior], last: int) -> None:
        """Put own posteriors, published up to this offset, into the view."""
        self.published[partition] = last
        for offset, posterior in enumerate(posteriors, last - len(posteriors) + 1):
            self.view.learn(posterior, offset)
