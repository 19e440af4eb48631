"""Labels to votes: takes batches of labels into the engine."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.continuity import check_continuity
from pipeline.agents.ends import EndsAsker
from pipeline.agents.publisher import Publisher
from pipeline.agents.rejects import Rejects
from pipeline.batched.batch import Batch
from pipeline.batched.producer import Outbox
from pipeline.classes import SKIP
from pipeline.records.names import Names
from pipeline.settings import Settings
from pipeline.stages.rows import Rows
from pipeline.stages.worker_stage import WorkerStage

LABELS_AT_ONCE = 100_000  # refreshed before other tasks of the loop run: some milliseconds


class LabelsListener(Protocol):
    """Is notified of the labels that are taken."""

    async def take_over(self, partitions: set[int]) -> None:
        """Called when the answers of these partitions are recovered, before any label is taken."""

    def labels_taken(self, rows: Rows) -> None:
        """Called when these labels were taken."""


class WorkerAgent:
    """The loop around `WorkerStage`, and the state behind the answers table."""

    name = "worker"

    def __init__(
        self,
        settings: Settings,
        stage: WorkerStage,
        publisher: Publisher,
        listener: LabelsListener,
        asker: EndsAsker,
        rejects: Rejects,
    ) -> None:
        self.ask = asker.ask
        self.rejects = rejects
        self.settings = settings
        self.stage = stage
        self.publisher = publisher
        self.listener = listener

    def open(self, partition: int) -> None:
        """Begin a partition with empty state."""
        self.stage.open(partition)

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.stage.close(partition)

    def restore(self, partition: int, records: list[ConsumerRecord], *, sure: bool) -> int:
        """Apply records of the answers topic; those that sbic did not write are dead letters."""
        values = [record.value for record in records]
        restored = self.stage.restore(partition, values, sure=sure)
        for place, why in restored.rejected.items():
            self.rejects.add(records[place], why)
        return restored.records

    async def ready(self, partitions: set[int], _generation: int) -> None:
        """Refresh the restored tasks; publish the last votes of each partition again.

        Its workers of the last seconds are published again, too.
        """
        await check_continuity(self.settings, self.stage, partitions)
        await self._refresh()
        for partition in partitions:
            self.stage.ready(partition)
        await self.listener.take_over(partitions)
        workers: list[Names] = []
        for partition in partitions:
            state = self.stage.partitions[partition]
            again = Outbox()
            for answers in state.last_answers:
                for home, value in answers.votes:
                    self.publisher.add_votes(again, home, value)
            await self.publisher.groups.producer.publish(again)
            state.last.clear()
            workers.append(state.restored.take())
        recent = self.stage.crowd.number_workers(Names.joined(workers))
        self.publisher.publish_workers(np.unique(recent))
        self.publisher.publish_workers(self.publisher.withheld_workers.take())

    async def _refresh(self) -> None:
        """Refresh the restored tasks with the workers known so far; other tasks run meanwhile."""
        more = True
        while more:
            more = self.stage.crowd.engine.refresh_due(LABELS_AT_ONCE)
            await asyncio.sleep(0)

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take the labels of each batch, a piece at a time, and publish the results in groups."""
        groups, crowd = self.publisher.groups, self.stage.crowd
        async for batch in stream:
            for piece in _pieces(batch, self.stage.labels_at_once):
                group = await groups.acquire()
                rows = self.stage.take(piece, group.taken)
                group.took_labels(sum(map(len, piece.values())))
                self.publisher.took_labels()
                if rows is not None:
                    is_counted = crowd.is_own_task(rows.tasks) & (rows.answers != SKIP)
                    group.timestamps.append(rows.timestamps[is_counted])
                    self.publisher.traces.took(piece, rows)
                    self.listener.labels_taken(rows)
                groups.notify()
            groups.notify(batch)


def _pieces(batch: Batch, size: int) -> Iterator[dict[int, list[ConsumerRecord]]]:
    """Split the labels of a batch into pieces of about `size`, with some of every partition."""
    parts, start = {tp.partition: records for tp, records in batch.parts.items()}, 0
    while parts:
        share = max(1, size // len(parts))
        yield {partition: records[start : start + share] for partition, records in parts.items()}
        start += share
        parts = {partition: records for partition, records in parts.items() if len(records) > start}
