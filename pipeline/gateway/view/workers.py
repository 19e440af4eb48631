"""All workers of a project: the last record of each, as published, and orders of them."""

from collections.abc import Iterable

import numpy as np
from aiokafka import ConsumerRecord

from pipeline.gateway.view.ranking import Floats, LiveRanking
from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.status.workers import WorkerTally
from pipeline.transfer.export import read_worker


class WorkerView:
    """The workers' records, as bytes.

    `orders` by name: the highest lower end of the interval first (`best`), the lowest upper end
    first (`worst`), and the most labels first (`labels`).
    """

    def __init__(self, tally: WorkerTally) -> None:
        self.tally = tally
        self._values: list[bytes] = []
        self.orders = {
            "best": LiveRanking(self._by_low),
            "worst": LiveRanking(self._by_high),
            "labels": LiveRanking(self._by_labels),
        }

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the workers topic, each partition's in order."""
        for record in {record.key: record for record in records}.values():
            try:
                j = self.tally.add(read_worker(record.value))
            except BadRecord:
                continue  # not an sbic record: ignore
            if j == len(self._values):
                self._values.append(record.value)
            self._values[j] = record.value

    def get(self, worker: str) -> bytes | None:
        """The last record of a worker, as published; None if there is none."""
        j = self.tally.ids.known(worker)
        return None if j is None else self._values[j]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """The records of these numbers."""
        return [self._values[j] for j in numbers]

    def _by_low(self) -> tuple[Ints, Floats]:
        places = np.flatnonzero(self.tally.label_counts())
        return places, -self.tally.lows()[places]

    def _by_high(self) -> tuple[Ints, Floats]:
        places = np.flatnonzero(self.tally.label_counts())
        return places, self.tally.highs()[places]

    def _by_labels(self) -> tuple[Ints, Floats]:
        labels = self.tally.label_counts()
        return np.arange(len(labels)), -labels.astype(np.float64)
