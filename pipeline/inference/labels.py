"""A set of labels as arrays: what every algorithm takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Labels:
    """Labels in order of arrival; tasks and workers numbered in the order they first appear.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> labels.task_names, labels.worker_names
    (('t1', 't2'), ('ann', 'bob'))
    >>> labels.task.tolist(), labels.worker.tolist(), labels.label.tolist()
    ([0, 1, 0], [0, 0, 1], [1, -1, 1])

    A skip (0) is no label, though its task exists; of two answers of one worker to one task
    the first counts:

    >>> again = Labels.of([("t1", "ann", 1), ("t1", "ann", -1), ("t2", "bob", 0)])
    >>> len(again), again.repeats, again.skips, again.tasks
    (1, 1, 1, 2)
    """

    task: Ints
    worker: Ints
    label: Ints
    task_names: tuple[str, ...]
    worker_names: tuple[str, ...]
    repeats: int = 0
    skips: int = 0

    @classmethod
    def of(cls, triples: Iterable[tuple[str, str, int]]) -> Self:
        """Number the names, drop the skips and keep the first answer of each worker to a task."""
        tasks: dict[str, int] = {}
        workers: dict[str, int] = {}
        answers: dict[tuple[int, int], int] = {}
        repeats = skips = 0
        for task_name, worker_name, label in triples:
            task = tasks.setdefault(task_name, len(tasks))
            worker = workers.setdefault(worker_name, len(workers))
            if label == 0:
                skips += 1
            elif (task, worker) in answers:
                repeats += 1
            else:
                answers[task, worker] = label
        pairs = np.array(list(answers), dtype=np.int64).reshape(-1, 2)
        return cls(
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
            np.fromiter(answers.values(), np.int64, len(answers)),
            tuple(tasks),
            tuple(workers),
            repeats,
            skips,
        )

    def __len__(self) -> int:
        return len(self.label)

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.task_names)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.worker_names)

    def in_order(self, order: Sequence[int] | Ints) -> "Labels":
        """The same labels, names and numbers, arriving in another order.

        >>> Labels.of([("t1", "ann", 1), ("t2", "ann", -1)]).in_order([1, 0]).task.tolist()
        [1, 0]
        """
        return Labels(
            self.task[order],
            self.worker[order],
            self.label[order],
            self.task_names,
            self.worker_names,
            self.repeats,
            self.skips,
        )
