"""Uncertainty sampling (equation 2): ask where we know least."""

from pipeline.policies.entry import Task
from pipeline.policies.policy import Policy

GRID = 2.0**30  # steps in a unit of log-odds: far more than matter, far fewer than bits that round


class Uncertainty(Policy[Task]):
    """The open task with the smallest lead: of two classes, the one closest to probability 1/2.

    An assignment in flight counts as if it had already moved the lead by `expected_weight`,
    the weight log(α / β) of a stranger's label. Tasks that differ by rounding alone are equals:
    which of them had the smaller sum would depend on the order of additions.

    >>> policy = Uncertainty(seed=1, expected_weight=0.7)
    >>> policy.update("t1", labels=2, lead=0.5)
    >>> policy.update("t2", labels=2, lead=0.6)
    >>> policy.choose(answered=set())
    't1'
    >>> policy.update("t1", labels=2, lead=0.5, in_flight=1)
    >>> policy.choose(answered=set())
    't2'
    """

    def __init__(self, seed: int = 0, expected_weight: float = 0.0) -> None:
        super().__init__(seed)
        self._expected_weight = expected_weight

    def update(self, task: Task, labels: int, lead: float, in_flight: int = 0) -> None:
        """Open `task`, or let its place follow its lead and assignments in flight."""
        key = lead + in_flight * self._expected_weight
        self._place(task, (key * GRID + 0.5) // 1.0, labels, in_flight)
