"""What the online algorithms share: a label at a time, and how they keep the labels they have.

The compiled ones pass over all labels again and again, so these are kept worker by worker in one
array: row j holds the answers of worker j, and an answer is one number, 2i + 1 for +1 on task i
and 2i for -1. A vector with a place for each answer (2 for each task) then needs neither a sign
nor a branch: at[2i + 1] and at[2i] are what the answers +1 and -1 on task i stand for.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.algorithm import Estimate
from pipeline.inference.labels import Floats, Ints

Answers = NDArray[np.int32]


class Online(Protocol):
    """Takes the labels as they come; tasks and workers are numbers."""

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's new score, in the sense of `Estimate.score`."""
        ...

    @property
    def score(self) -> Floats:
        """The score of every task; the smaller its absolute value, the less is known."""
        ...

    def estimate(self) -> Estimate:
        """What the labels so far say of each task."""
        ...


def no_answers(workers: int, labels_per_worker: int) -> tuple[Answers, Ints]:
    """Empty rows for every worker's answers, and how many each has given: none."""
    return np.zeros((workers, labels_per_worker), np.int32), np.zeros(workers, np.int64)
