"""When a task has been asked about enough."""

from typing import NamedTuple

from pipeline.records.posteriors import CloseReason, sigmoid


class StopRules(NamedTuple):
    """The rules that close a task; `None` where there is no such rule.

    >>> StopRules(confidence=0.9, labels=5).reason(log_odds=-2.5, labels=2)
    'confident'
    >>> StopRules(confidence=0.9, labels=5).reason(log_odds=2.0, labels=5)
    'labels'
    """

    confidence: float | None = None
    labels: int | None = None
    budget: int | None = None

    @property
    def are_set(self) -> bool:
        """Whether any task can be closed by a rule."""
        return any(rule is not None for rule in self)

    def reason(self, log_odds: float, labels: int) -> CloseReason | None:
        """Why a task with these log-odds and labels is to be closed, if it is."""
        # sigmoid(|z|) is max(p, 1 - p)
        if self.confidence is not None and sigmoid(abs(log_odds)) >= self.confidence:
            return "confident"
        if self.labels is not None and labels >= self.labels:
            return "labels"
        return None

    def is_spent(self, labels: int) -> bool:
        """Whether so many labels on all tasks are the budget or more."""
        return self.budget is not None and labels >= self.budget
