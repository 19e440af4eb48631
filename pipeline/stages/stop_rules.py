"""When a task needs no more labels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.stages.crowd import OPEN, REASONS

CONFIDENT, LABELS = map(REASONS.index, ("confident", "labels"))


class StopRules(NamedTuple):
    """The rules that close a task; `None` for a rule that is not set.

    >>> rules = StopRules(confidence=0.9, labels=5)
    >>> [REASONS[k] for k in rules.reasons(np.array([0.95, 0.6, 0.6]), np.array([2, 5, 4]))]
    ['confident', 'labels', None]
    """

    confidence: float | None = None
    labels: int | None = None
    budget: int | None = None

    @property
    def are_set(self) -> bool:
        """Whether any task can be closed by a rule."""
        return any(rule is not None for rule in self)

    def reasons(self, sure: Floats, labels: Ints) -> NDArray[np.int8]:
        """Why tasks close, by the probability of the first class and the number of labels."""
        reasons = np.full(len(sure), OPEN, np.int8)
        if self.labels is not None:
            reasons[labels >= self.labels] = LABELS
        if self.confidence is not None:
            reasons[sure >= self.confidence] = CONFIDENT
        return reasons

    def is_doubtful(self, sure: Floats) -> NDArray[np.bool_]:
        """Whether the odds of the first class are less than half of what the rule requires.

        Not just less, or a task could close and reopen with every label.

        >>> StopRules(confidence=0.9).is_doubtful(np.array([0.85, 0.8])).tolist()
        [False, True]
        """
        if self.confidence is None:
            return np.zeros(len(sure), np.bool_)
        doubtful: NDArray[np.bool_] = 2 * sure * (1 - self.confidence) < self.confidence * (
            1 - sure
        )
        return doubtful

    def is_spent(self, labels: int) -> bool:
        """Whether so many labels on all tasks reach the budget."""
        return self.budget is not None and labels >= self.budget
