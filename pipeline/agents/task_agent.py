"""Votes to posteriors: reads vote batches, publishes the posterior of each task they changed."""

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.follower import Follower
from pipeline.agents.metrics import Metrics
from pipeline.agents.publisher import Publisher
from pipeline.batched.batch import Batch
from pipeline.batched.conveyor import Conveyor
from pipeline.batched.producer import NO_HEADERS, Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import encode_posterior, parse_posterior
from pipeline.records.votes import parse_votes
from pipeline.stages.task_stage import TaskStage
from pipeline.topics import Topics

VOTES_AT_ONCE = 2000


class VoteGroup:
    """The tasks of several partitions that votes have changed, to be published together."""

    def __init__(self) -> None:
        self.changed: dict[int, dict[str, None]] = {}  # tasks by partition, in order
        self.timestamps: list[int] = []
        self.rejected: list[tuple[ConsumerRecord, BadRecord]] = []
        self.votes = 0
        self.is_full = False


class TaskAgent:
    """The loop around `TaskStage`, and the state behind the tasks table.

    The posteriors are the changelog of that table, so a task and its record cannot disagree.
    """

    name = "task"

    def __init__(
        self,
        stage: TaskStage,
        follower: Follower,
        topics: Topics,
        publisher: Publisher,
        metrics: Metrics,
    ) -> None:
        self.stage = stage
        self.follower = follower
        self.view = follower.view
        self.published: dict[int, int] = {}  # offset of the last posterior, by partition
        self.topics = topics
        self.publisher = publisher
        self.metrics = metrics
        self.conveyor = Conveyor(VoteGroup, self.publish)

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""
        self.stage.open(partition)
        self.published[partition] = -1
        self.follower.leave(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.stage.close(partition)
        self.follower.follow(partition, after=self.published.pop(partition))

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Take up the tasks where their posteriors left them."""
        for record in records:
            try:
                posterior = parse_posterior(record.value)
            except BadRecord:
                continue  # written by a stranger
            self.stage.restore(partition, posterior)
            self.view.learn(posterior, record.offset)
        self.published[partition] = records[-1].offset

    async def ready(self, partitions: set[int]) -> None:
        """Nothing to do: votes that were not counted come again."""

    async def run(self, stream: StreamT[Batch]) -> None:
        """Count the votes of each batch, and let the conveyor publish the posteriors."""
        async for batch in stream:
            for record in batch.records:
                group = await self.conveyor.room()
                self._count(record, group)
                self.conveyor.load(batch if record is batch.records[-1] else None)

    def _count(self, record: ConsumerRecord, group: VoteGroup) -> None:
        try:
            source, votes = parse_votes(record.value)
        except BadRecord as bad:
            group.rejected.append((record, bad))
            return
        counted = self.stage.count(record.partition, source, votes)
        group.changed.setdefault(record.partition, {}).update(dict.fromkeys(counted.tasks))
        group.timestamps += counted.timestamps
        group.votes += len(votes)
        group.is_full = group.votes >= VOTES_AT_ONCE

    async def publish(self, group: VoteGroup) -> None:
        """Publish the posterior of each task that changed, and put it into the view."""
        with self.metrics.published_by(self.name, group.votes):
            outbox = Outbox()
            for record, why in group.rejected:
                self.publisher.add_dead_letter(outbox, record, why)
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
            offsets = await self.publisher.publish(outbox)
        for partition, changed in posteriors.items():
            last = self.published[partition] = offsets[name, partition]
            for offset, posterior in enumerate(changed, last - len(changed) + 1):
                self.view.learn(posterior, offset)
            self.metrics.posteriors.inc(len(changed))
        self.metrics.votes.inc(group.votes)
        self.metrics.dated(group.timestamps)
