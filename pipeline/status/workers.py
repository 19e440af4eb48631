"""Aggregates of all workers' records: the best and the worst workers."""

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.engine.ids import Ids


class Rated(NamedTuple):
    """A worker with accuracy, interval and number of labels."""

    worker: str
    accuracy: float
    interval: tuple[float, float]
    labels: int


class WorkerTally:
    """A few numbers for each worker, of their last record.

    The best are those with the highest lower end of the interval, the worst those with the lowest
    upper end: workers with few labels are neither.

    >>> tally = WorkerTally()
    >>> for name, low, high in (("ann", 0.8, 0.9), ("new", 0.2, 0.99), ("bob", 0.3, 0.5)):
    ...     known = {"worker": name, "accuracy": 0.5, "interval": [low, high], "labels": 9}
    ...     number = tally.add(known)
    >>> [rated.worker for rated in tally.best(2)], [rated.worker for rated in tally.worst(2)]
    (['ann', 'bob'], ['bob', 'ann'])
    """

    def __init__(self) -> None:
        self.ids = Ids[str]()
        self._accuracies, self._lows, self._highs = array("d"), array("d"), array("d")
        self._labels = array("q")

    def add(self, worker: Mapping[str, Any]) -> int:
        """Add the newest record of a worker; returns the number of the worker."""
        j = self.ids.number(worker["worker"])
        if j == len(self._labels):
            for column in (self._accuracies, self._lows, self._highs):
                column.append(0.0)
            self._labels.append(0)
        self._accuracies[j] = worker["accuracy"]
        self._lows[j], self._highs[j] = worker["interval"]
        self._labels[j] = worker["labels"]
        return j

    def __len__(self) -> int:
        return len(self._labels)

    def best(self, most: int) -> list[Rated]:
        """Those with the highest lower end of the interval."""
        return self._first(-self.lows(), most)

    def worst(self, most: int) -> list[Rated]:
        """Those with the lowest upper end of the interval."""
        return self._first(self.highs(), most)

    def lows(self) -> NDArray[np.float64]:
        """The lower end of each worker's interval, by the number of the worker."""
        return np.array(self._lows)

    def highs(self) -> NDArray[np.float64]:
        """The upper end of each worker's interval."""
        return np.array(self._highs)

    def label_counts(self) -> NDArray[np.int64]:
        """How many labels each worker has given."""
        return np.array(self._labels)

    def accuracy(self, worker: str) -> float | None:
        """The accuracy of a worker; None if the worker is unknown."""
        j = self.ids.known(worker)
        return None if j is None else self._accuracies[j]

    def _first(self, scores: NDArray[np.float64], most: int) -> list[Rated]:
        places = np.flatnonzero(self.label_counts())
        order = places[np.argsort(scores[places], kind="stable")][:most].tolist()
        return [
            Rated(
                self.ids.names[j],
                self._accuracies[j],
                (self._lows[j], self._highs[j]),
                self._labels[j],
            )
            for j in order
        ]
