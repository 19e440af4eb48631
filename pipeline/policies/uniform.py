"""Uniform sampling (equation 1): every task gets the same number of labels."""

from pipeline.policies.entry import Task
from pipeline.policies.policy import Policy


class Uniform(Policy[Task]):
    """The open task with the fewest labels, those in flight counted.

    >>> policy = Uniform(seed=1)
    >>> policy.update("t1", labels=2, lead=0.0)
    >>> policy.update("t2", labels=3, lead=0.0)
    >>> policy.choose(answered=set())
    't1'
    >>> policy.choose(answered={"t1"})
    't2'
    """

    def update(self, task: Task, labels: int, lead: float, in_flight: int = 0) -> None:
        """Open `task`, or let its place follow its labels and assignments in flight."""
        self._place(task, labels + in_flight, labels, in_flight)
