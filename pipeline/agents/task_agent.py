"""Votes to posteriors: reads vote batches, publishes the posterior of each task they changed."""

from aiokafka import ConsumerRecord

from pipeline.agents.follower import Follower
from pipeline.agents.metrics import Metrics
from pipeline.agents.publisher import Publisher
from pipeline.batched.batch import Batch
from pipeline.batched.producer import NO_HEADERS, Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import encode_posterior, parse_posterior
from pipeline.records.votes import parse_votes
from pipeline.stages.task_stage import TaskStage
from pipeline.topics import Topics


class TaskAgent:
    """The loop around `TaskStage`, and the state behind the tasks table.

    The posteriors are the changelog of that table, so a task and its record cannot disagree.
    """

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

    async def process(self, batch: Batch) -> None:
        """Count the votes of a batch; on return the posteriors are published."""
        partition = batch.tp.partition
        outbox = Outbox()
        changed: dict[str, None] = {}
        timestamps: list[int] = []
        for record in batch.records:
            try:
                source, votes = parse_votes(record.value)
            except BadRecord as bad:
                self.publisher.add_dead_letter(outbox, record, bad)
                continue
            counted = self.stage.count(partition, source, votes)
            changed.update(dict.fromkeys(counted.tasks))
            timestamps += counted.timestamps
            self.metrics.votes.inc(len(votes))
        posteriors = [self.stage.posterior(partition, task) for task in changed]
        name = self.topics.posteriors.name
        if posteriors:
            outbox[name, partition] = [
                (posterior["task"].encode(), encode_posterior(posterior), None, NO_HEADERS)
                for posterior in posteriors
            ]
        offsets = await self.publisher.publish(outbox)
        if posteriors:
            last = self.published[partition] = offsets[name, partition]
            for offset, posterior in enumerate(posteriors, last - len(posteriors) + 1):
                self.view.learn(posterior, offset)
        self.metrics.posteriors.inc(len(posteriors))
        self.metrics.published(timestamps)
