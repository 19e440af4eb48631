"""Labels to votes: takes label batches, publishes the answers, then their votes."""

import asyncio
from time import monotonic
from typing import Protocol

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.dead_letters import DeadLetters
from pipeline.agents.metrics import Metrics
from pipeline.batched.batch import Batch
from pipeline.batched.conveyor import Conveyor, Parcel
from pipeline.batched.producer import NO_HEADERS, BatchProducer, Offsets, Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.votes import Answers, VotesByPartition, encode_answers, parse_answers
from pipeline.records.workers import encode_worker
from pipeline.stages.task_view import Worker
from pipeline.stages.worker_stage import Taken, WorkerStage
from pipeline.topics import Topics

SECONDS_BETWEEN_WORKERS = 0.2
LABELS_AT_ONCE = 1000  # so that their answers fit into one record, whatever the length of the ids


class LabelsListener(Protocol):
    """Who wants to know which labels were taken."""

    async def take_over(self, partitions: set[int]) -> None:
        """The answers of these partitions are recovered; labels come next."""

    def labels_taken(self, partition: int, votes: VotesByPartition) -> None:
        """Labels of one partition were taken, and came to these votes."""


class LabelGroup(dict[int, Taken[ConsumerRecord]]):
    """What the labels of several partitions came to, to be published together."""

    labels = 0
    is_full = False

    def __missing__(self, partition: int) -> Taken[ConsumerRecord]:
        taken = self[partition] = Taken()
        return taken


class WorkerAgent:
    """The loop around `WorkerStage`, and the state behind the answers table.

    A group is published in steps. First its answers, from which the next owner recovers; then the
    votes, together with the answers of the next group. The next owner takes no label twice, and
    sends the last votes again, in case a crash came between: the task agent's fence drops what it
    has counted. Of labels that were bad or forwarded the answers say nothing but that they were
    taken, so they go out ahead: a crash may send them twice, but loses none.
    """

    name = "worker"

    def __init__(
        self, stage: WorkerStage, topics: Topics, producer: BatchProducer, metrics: Metrics
    ) -> None:
        self.stage = stage
        self.topics = topics
        self.metrics = metrics
        self.dead_letters = DeadLetters(topics.dead_letters.name, metrics)
        self.conveyor = Conveyor(producer, LabelGroup, self.pack)
        self.changed: dict[int, dict[Worker, None]] = {}  # workers to publish, by partition
        self.workers_due = 0.0
        self.listener: LabelsListener | None = None

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""
        self.stage.open(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.stage.close(partition)
        self.changed.pop(partition, None)

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the answers topic."""
        for record in records:
            try:
                answers = parse_answers(record.value)
            except BadRecord:
                continue  # written by a stranger
            self.stage.restore(partition, answers)

    async def ready(self, partitions: set[int]) -> None:
        """Send the last votes of each partition again, and its workers of the last seconds."""
        if self.listener is not None:
            await self.listener.take_over(partitions)
        for partition in partitions:
            state = self.stage.partitions[partition]
            for votes in state.last:
                again = Outbox()
                self._add_votes(again, encode_answers(Answers([], votes), partition)[1])
                await self.conveyor.producer.publish(again)
            state.last.clear()
            if restored := state.restored_of_late():
                self.changed[partition] = restored
                self.conveyor.load()

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take the labels of each batch, a piece at a time, and let the conveyor publish them."""
        async for batch in stream:
            for tp, records in batch.parts.items():
                for start in range(0, len(records), LABELS_AT_ONCE):
                    piece = records[start : start + LABELS_AT_ONCE]
                    group = await self.conveyor.room()
                    self.stage.take(tp.partition, piece, group[tp.partition])
                    group.labels += len(piece)
                    group.is_full = group.labels >= LABELS_AT_ONCE
                    self.conveyor.load()
            self.conveyor.load(batch)

    def pack(self, group: LabelGroup) -> Parcel:
        """Dead letters and forwarded labels; the answers; then the votes and workers."""
        ahead, first, then = Outbox(), Outbox(), Outbox()
        for partition, taken in group.items():
            if self.listener is not None:
                self.listener.labels_taken(partition, taken.votes)
            value, votes = encode_answers(Answers(taken.pieces, taken.votes), partition)
            first.add(self.topics.answers.name, partition, (None, value, None, NO_HEADERS))
            for record, why in taken.rejected:
                self.dead_letters.add(ahead, record, why)
            self._add_forwarded(ahead, taken)
            self._add_votes(then, votes)
            if taken.workers:
                self.changed.setdefault(partition, {}).update(taken.workers)
        self._add_workers(then, monotonic())

        def published(_offsets: Offsets, seconds: float) -> None:
            self.metrics.took(self.name, group.labels, seconds)
            for taken in group.values():
                for outcome, labels in taken.outcomes.items():
                    self.metrics.labels.labels(outcome).inc(labels)

        return Parcel(first, published, ahead, then)

    def _add_votes(self, outbox: Outbox, votes: dict[int, bytes]) -> None:
        for partition, value in votes.items():
            outbox.add(self.topics.votes.name, partition, (None, value, None, NO_HEADERS))

    def _add_workers(self, outbox: Outbox, now: float) -> None:
        """Add the workers that changed, a few times a second: they are in no hurry."""
        if not self.changed or (now < self.workers_due and not self.conveyor.in_a_hurry):
            return
        rows = [(partition, worker) for partition, some in self.changed.items() for worker in some]
        self.changed = {}
        # for all at once: one by one, the intervals would cost more than the rest of a label
        intervals = self.stage.model.intervals([(w.labels, w.correct) for _, w in rows])
        for (partition, worker), interval in zip(rows, intervals, strict=True):
            row = (worker.name.encode(), self._encode(worker, interval), None, NO_HEADERS)
            outbox.add(self.topics.workers.name, partition, row)
        self.workers_due = now + SECONDS_BETWEEN_WORKERS
        # then once more, for those that change meanwhile and are not followed by others
        asyncio.get_running_loop().call_later(SECONDS_BETWEEN_WORKERS, self.conveyor.load)

    def _encode(self, worker: Worker, interval: list[float]) -> bytes:
        return encode_worker(
            {
                "worker": worker.name,
                "accuracy": self.stage.model.accuracy(worker.labels, worker.correct),
                "interval": interval,
                "labels": worker.labels,
                "correct": worker.correct,
                "gold": worker.gold,
                "gold_right": worker.gold_right,
                "last_seen": worker.last_seen,
            }
        )

    def _add_forwarded(self, outbox: Outbox, taken: Taken[ConsumerRecord]) -> None:
        for record, worker, home in taken.forwarded:
            row = (worker.encode(), record.value, record.timestamp, list(record.headers))
            outbox.add(self.topics.labels.name, home, row)
