"""The results of the engine's methods: columns and numbers with names."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints


class Taken(NamedTuple):
    """The outcome of each label of a batch (`taking.ADDED`, ...), and its vote under Fast SBIC."""

    outcomes: NDArray[np.int8]
    votes: Floats


class Rest(NamedTuple):
    """How many sweeps it took, and how far the last one moved any probability."""

    sweeps: int
    change: float


class Overview(NamedTuple):
    """For each task: its number of labels, its gold class or -1, and its lead.

    The lead of the most probable class over the second is in log-odds, from labels and prior,
    without gold.
    """

    labels: Ints
    golds: Ints
    leads: Floats


class Sums(NamedTuple):
    """One engine's part in the sums over the crowd: N, A, T and ρ."""

    given: float
    right: float
    tasks: float
    rho: Floats


class StandingLabels(NamedTuple):
    """Labels that stand: task, worker and class of each."""

    tasks: Ints
    workers: Ints
    answers: Ints


class WorkerCounts(NamedTuple):
    """The estimates of some workers, a row for each.

    A worker has `given` labels, of which `right` are expected to be right, and `said` of each
    class; `accuracy` also includes the prior. Under settled a worker knows the answer with
    probability `theta`, and otherwise answers each class with the frequency in `habits`.
    """

    given: Floats
    right: Floats
    said: Floats
    accuracy: Floats
    theta: Floats | None
    habits: Floats | None
