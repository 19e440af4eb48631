"""The interface of the online algorithms, and the array in which some of them keep their labels.

The compiled algorithms pass over all labels repeatedly, so the labels are kept worker by worker in
one array: row j holds the answers of worker j, and an answer is one number, 2i + 1 for +1 on task i
and 2i for -1. A vector with an element for each possible answer (2 for each task) then needs
neither a sign nor a branch: elements 2i + 1 and 2i belong to the answers +1 and -1 on task i.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.labels import Floats, Ints

Answers = NDArray[np.int32]


class Online(Protocol):
    """Learns from one label at a time; tasks and workers are numbers."""

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's new score, in the sense of `Estimate.score`."""
        ...

    @property
    def score(self) -> Floats:
        """The score of every task; the smaller its absolute value, the less is known."""
        ...

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        ...


class CrowdSize(NamedTuple):
    """How many tasks and workers there are, and how many labels a worker gives at most."""

    tasks: int
    workers: int
    labels_per_worker: int


class OnlineForm(Protocol):
    """Starts an online algorithm; `rng` is for those that draw at random."""

    def __call__(self, size: CrowdSize, prior: Prior, rng: np.random.Generator) -> Online:
        """Return it without any labels, for a crowd of this size."""
        ...


class AnswerRows(NamedTuple):
    """Each worker's answers in a row, and how many each worker has given."""

    answers: Answers
    given: Ints


def no_answers(workers: int, labels_per_worker: int) -> AnswerRows:
    """Empty rows."""
    return AnswerRows(np.zeros((workers, labels_per_worker), np.int32), np.zeros(workers, np.int64))
