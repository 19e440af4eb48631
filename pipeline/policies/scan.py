"""Uncertainty sampling by a scan of all tasks: for algorithms in which a label moves all scores."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import compiled


class Scan:
    """The task with the smallest |score|, ties in a random order drawn from the seed.

    `Uncertainty` keeps tasks sorted, for algorithms in which a label moves one task. In KOS, AMF,
    EM, MC and Sorted SBIC a label moves the scores of all tasks, and scanning them is as cheap as
    reading the changes.

    >>> score = np.array([0.5, -0.2, 0.9])
    >>> policy = Scan(score)
    >>> policy.choose(answers=[]), policy.choose(answers=[1])
    (1, 0)
    >>> score[:] = 1, 2, 3  # the algorithm's own array: changes need not be passed on
    >>> policy.choose(answers=[])
    0
    """

    def __init__(self, score: NDArray[np.float64], seed: int = 0) -> None:
        self._score = score
        self._rng = np.random.default_rng(seed)
        self._tie = self._rng.random(len(score))
        self._is_answered = np.zeros(len(score), np.bool_)

    def choose(self, answers: Collection[int]) -> int | None:
        """The first task not in `answers`; None if there is none."""
        is_answered = self._is_answered
        for task in answers:
            is_answered[task] = True
        first = least_certain(self._score, self._tie, is_answered)
        for task in answers:
            is_answered[task] = False
        return first if first >= 0 else None

    def update(self, task: int, labels: int, lead: float) -> None:
        """Draw another tie-breaker for a task that got a label, as in `Policy`."""
        self._tie[task] = self._rng.random()


@compiled
def least_certain(
    score: NDArray[np.float64],
    tie: NDArray[np.float64],
    is_answered: NDArray[np.bool_],
) -> int:
    """The task with the smallest |score|, or -1."""
    first, least = -1, np.inf
    for task in range(len(score)):
        key = abs(score[task])
        if key > least or is_answered[task]:
            continue
        if first < 0 or key < least or tie[task] < tie[first]:
            first, least = task, key
    return first
