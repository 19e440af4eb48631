"""A set of labels as arrays: the input of every algorithm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SIGNS = ("-1", "1")
"""The classes of the paper, in order: answer 0 is the label -1, answer 1 is +1."""

ANSWER = {-1: 0, 1: 1}


@dataclass(frozen=True)
class Labels:
    """Labels in order of arrival; tasks and workers numbered in the order they first appear.

    An answer is the number of a class: its position in `classes`. If these are -1 and 1, `label`
    has the answers in the paper's terms:

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> labels.task_names, labels.worker_names
    (('t1', 't2'), ('ann', 'bob'))
    >>> labels.task.tolist(), labels.worker.tolist(), labels.label.tolist()
    ([0, 1, 0], [0, 0, 1], [1, -1, 1])

    A skip (0) is not a label, though its task is known. If a worker answers a task twice, the first
    answer counts:

    >>> again = Labels.of([("t1", "ann", 1), ("t1", "ann", -1), ("t2", "bob", 0)])
    >>> len(again), again.repeats, again.skips, again.tasks
    (1, 1, 1, 2)
    """

    task: Ints
    worker: Ints
    answer: Ints
    task_names: tuple[str, ...]
    worker_names: tuple[str, ...]
    classes: tuple[str, ...] = SIGNS
    repeats: int = 0
    skips: int = 0

    @classmethod
    def of(cls, triples: Iterable[tuple[str, str, int]]) -> Self:
        """From labels in the paper's terms: 1, -1, or 0 for a skip."""
        return cls.of_answers(
            ((task, worker, ANSWER[label] if label else None) for task, worker, label in triples),
            SIGNS,
        )

    @classmethod
    def of_answers(
        cls, triples: Iterable[tuple[str, str, int | None]], classes: tuple[str, ...]
    ) -> Self:
        """Number the names, drop the skips (None), keep each worker's first answer to a task.

        >>> pets = [("t1", "ann", 2), ("t1", "bob", None), ("t2", "ann", 0)]
        >>> labels = Labels.of_answers(pets, ("cat", "dog", "bird"))
        >>> labels.answer.tolist(), labels.skips
        ([2, 0], 1)
        """
        tasks: dict[str, int] = {}
        workers: dict[str, int] = {}
        answers: dict[tuple[int, int], int] = {}
        repeats = skips = 0
        for task_name, worker_name, answer in triples:
            task = tasks.setdefault(task_name, len(tasks))
            worker = workers.setdefault(worker_name, len(workers))
            if answer is None:
                skips += 1
            elif (task, worker) in answers:
                repeats += 1
            else:
                answers[task, worker] = answer
        pairs = np.array(list(answers), dtype=np.int64).reshape(-1, 2)
        return cls(
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
            np.fromiter(answers.values(), np.int64, len(answers)),
            tuple(tasks),
            tuple(workers),
            classes,
            repeats,
            skips,
        )

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.task_names)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.worker_names)

    @property
    def are_signs(self) -> bool:
        """Whether the classes are -1 and 1, as most algorithms of the paper need them."""
        return self.classes == SIGNS

    @cached_property
    def label(self) -> Ints:
        """x of the paper: each answer as 1 or -1."""
        assert self.are_signs, f"the classes are not -1 and 1 but {', '.join(self.classes)}"
        return 2 * self.answer - 1

    def in_order(self, order: Sequence[int] | Ints) -> "Labels":
        """The same labels, names and numbers, arriving in another order.

        >>> Labels.of([("t1", "ann", 1), ("t2", "ann", -1)]).in_order([1, 0]).task.tolist()
        [1, 0]
        """
        return replace(
            self, task=self.task[order], worker=self.worker[order], answer=self.answer[order]
        )
