"""Labels to votes: reads label batches, publishes the answers, then their votes."""

from collections.abc import Iterable, Iterator
from time import time_ns

from aiokafka import ConsumerRecord

from pipeline.agents.metrics import Metrics
from pipeline.agents.publisher import Publisher
from pipeline.batched.batch import Batch
from pipeline.batched.producer import NO_HEADERS, Outbox
from pipeline.records.votes import Answers, encode_answers, parse_answers
from pipeline.records.workers import encode_worker
from pipeline.stages.task_view import Worker
from pipeline.stages.worker_stage import Taken, WorkerStage
from pipeline.topics import Topics

LABELS_AT_ONCE = 1000  # so that their answers fit into one record, whatever the length of the ids


class WorkerAgent:
    """The loop around `WorkerStage`, and the state behind the answers table.

    A batch is published in two steps. First its answers, from which the next owner recovers; then
    the votes. The next owner takes no label twice, and sends the votes of the last batch again,
    in case the crash came between the two: the task agent's fence drops what it has counted.
    """

    def __init__(
        self, stage: WorkerStage, topics: Topics, publisher: Publisher, metrics: Metrics
    ) -> None:
        self.stage = stage
        self.topics = topics
        self.publisher = publisher
        self.metrics = metrics

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""
        self.stage.open(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.stage.close(partition)

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the answers topic."""
        for record in records:
            self.stage.restore(partition, parse_answers(record.value))

    async def ready(self, partitions: set[int]) -> None:
        """Send the last votes of each partition again."""
        again = Outbox()
        for partition in partitions:
            state = self.stage.partitions[partition]
            answers = Answers(state.taken, time_ns(), state.last)
            _, votes = encode_answers(answers, partition)
            self._add_votes(again, votes)
            names = {row[1] for rows in state.last.values() for row in rows}
            self._add_workers(again, partition, (state.workers[name] for name in names))
        await self.publisher.publish(again)

    async def process(self, batch: Batch) -> None:
        """Take the labels of a batch; on return all they came to is published."""
        partition = batch.tp.partition
        for records in _chunks(batch.records, LABELS_AT_ONCE):
            taken = self.stage.take(partition, records, upto=records[-1].offset)
            answers, votes = encode_answers(Answers(taken.upto, time_ns(), taken.votes), partition)
            first = Outbox()
            first.add(self.topics.answers.name, partition, (None, answers, None, NO_HEADERS))
            for record, why in taken.rejected:
                self.publisher.add_dead_letter(first, record, why)
            self._add_forwarded(first, taken)
            await self.publisher.publish(first)
            then = Outbox()
            self._add_votes(then, votes)
            self._add_workers(then, partition, taken.workers)
            await self.publisher.publish(then)
            for outcome, labels in taken.outcomes.items():
                self.metrics.labels.labels(outcome).inc(labels)

    def _add_votes(self, outbox: Outbox, votes: dict[int, bytes]) -> None:
        for partition, value in votes.items():
            outbox.add(self.topics.votes.name, partition, (None, value, None, NO_HEADERS))

    def _add_workers(self, outbox: Outbox, partition: int, workers: Iterable[Worker]) -> None:
        accuracy = self.stage.model.accuracy
        name = self.topics.workers.name
        for worker in workers:
            value = encode_worker(
                {
                    "worker": worker.name,
                    "accuracy": accuracy(worker.labels, worker.correct),
                    "labels": worker.labels,
                    "correct": worker.correct,
                }
            )
            outbox.add(name, partition, (worker.name.encode(), value, None, NO_HEADERS))

    def _add_forwarded(self, outbox: Outbox, taken: Taken[ConsumerRecord]) -> None:
        for record, worker, home in taken.forwarded:
            row = (worker.encode(), record.value, record.timestamp, list(record.headers))
            outbox.add(self.topics.labels.name, home, row)


def _chunks(records: list[ConsumerRecord], size: int) -> Iterator[list[ConsumerRecord]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]
