"""Uncertainty sampling by a look at every task: for algorithms that move all of them at once."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import compiled


class Scan:
    """The task with the smallest |score|, ties in a random order drawn from the seed.

    An order (`Uncertainty`) follows an algorithm that moves one task with each label. KOS, AMF, EM,
    MC and Sorted SBIC move the score of all tasks, and to look at all of them is then as cheap as
    to read what has moved.

    >>> score = np.array([0.5, -0.2, 0.9])
    >>> policy = Scan(score)
    >>> policy.choose(answers=[]), policy.choose(answers=[1])
    (1, 0)
    >>> score[:] = 1, 2, 3  # the algorithm's own array: there is nothing to hand over
    >>> policy.choose(answers=[])
    0
    """

    def __init__(self, score: NDArray[np.float64], seed: int = 0) -> None:
        self._score = score
        self._rng = np.random.default_rng(seed)
        self._place_among_equals = self._rng.random(len(score))
        self._is_answered = np.zeros(len(score), np.bool_)

    def choose(self, answers: Collection[int]) -> int | None:
        """The first task not in `answers`; None where there is no such task."""
        is_answered = self._is_answered
        for task in answers:
            is_answered[task] = True
        first = least_certain(self._score, self._place_among_equals, is_answered)
        for task in answers:
            is_answered[task] = False
        return first if first >= 0 else None

    def update(self, task: int, labels: int, lead: float) -> None:
        """A task that got a label draws its place among equals anew, as in `Policy`."""
        self._place_among_equals[task] = self._rng.random()


@compiled
def least_certain(
    score: NDArray[np.float64],
    place_among_equals: NDArray[np.float64],
    is_answered: NDArray[np.bool_],
) -> int:
    """The task that comes first, or -1."""
    first, least = -1, np.inf
    for task in range(len(score)):
        key = abs(score[task])
        if key > least or is_answered[task]:
            continue
        if first < 0 or key < least or place_among_equals[task] < place_among_equals[first]:
            first, least = task, key
    return first
