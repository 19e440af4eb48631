"""What a policy needs to know about a worker: which tasks are new to them."""

from typing import Protocol

from pipeline.inference.labels import Ints


class Answers(Protocol):
    """The tasks that a worker must not get."""

    def first_new(self, tasks: Ints) -> int:
        """The index of the first of these tasks that is new to the worker, or their number."""
        ...


class AnswerSet(set[int]):
    """A set of tasks.

    >>> import numpy as np
    >>> AnswerSet({4, 7}).first_new(np.array([7, 4, 5, 7]))
    2
    """

    def first_new(self, tasks: Ints) -> int:
        """The index of the first of these tasks that is not in the set, or their number."""
        for place, task in enumerate(tasks):
            if task not in self:
                return place
        return len(tasks)
