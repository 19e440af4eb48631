"""How often pairs of workers agree: the input of triangular estimation.

C_jk is the mean of x_ij x_ik over the tasks i that workers j and k both labelled, 0 if they share
none. It is computed one row at a time, in O(labels on the worker's tasks), because the whole
matrix of a large crowd would not fit in memory.
"""

import numpy as np

from pipeline.inference.grouping import grouped, ranges, summed
from pipeline.inference.labels import Floats, Labels


class Agreement:
    """The rows of C, with 0 on the diagonal.

    >>> Agreement(Labels.of([("t1", "ann", 1), ("t1", "bob", -1), ("t2", "cy", 1)])).row(0).tolist()
    [0.0, -1.0, 0.0]
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._by_task, self._task_start = grouped(labels.task, labels.tasks)
        self._by_worker, self._worker_start = grouped(labels.worker, labels.workers)
        self._task_size = np.diff(self._task_start)

    def row(self, worker: int) -> Floats:
        """C_jk for j = worker and every k."""
        labels = self._labels
        own = self._by_worker[self._worker_start[worker] : self._worker_start[worker + 1]]
        tasks = labels.task[own]
        size = self._task_size[tasks]
        beside = self._by_task[ranges(self._task_start[tasks], size)]
        product = labels.label[beside] * np.repeat(labels.label[own], size)
        shared = np.bincount(labels.worker[beside], minlength=labels.workers)
        row = summed(labels.worker[beside], product, labels.workers) / np.maximum(shared, 1)
        row[worker] = 0
        return row


class StrongestPairs:
    """For each worker i the two workers j > i with the largest |C_ij|, the first among equals.

    Two are kept so that the strongest pair without a given worker can be found.

    >>> pairs = StrongestPairs(3)
    >>> pairs.add(0, np.array([0, 0.5, -0.9])); pairs.add(1, np.array([0.5, 0, 0.1]))
    >>> pairs.strongest(), pairs.strongest(without=2), pairs.strongest(without=0)
    ((0, 2), (0, 1), (1, 2))
    """

    def __init__(self, workers: int) -> None:
        self._partner = np.zeros((2, workers), dtype=np.int64)
        self._strength = np.full((2, workers), -1.0)

    def add(self, worker: int, row: Floats) -> None:
        """Add this worker's row of C."""
        later = np.abs(row[worker + 1 :])
        for rank in range(min(2, len(later))):
            best = int(np.argmax(later))
            self._partner[rank, worker] = worker + 1 + best
            self._strength[rank, worker] = later[best]
            later[best] = -1

    def strongest(self, without: int = -1) -> tuple[int, int]:
        """The pair with the largest |C_ij|, the first among equals."""
        rank = (self._partner[0] == without).astype(np.int64)
        every = np.arange(len(rank))
        strength = np.where(every == without, -1.0, self._strength[rank, every])
        i = int(np.argmax(strength))
        return i, int(self._partner[rank[i], i])
