"""Majority voting, one label at a time."""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.labels import Floats
from pipeline.inference.online.online import CrowdSize


class MajorityOnline:
    """MAJ: the score of a task is the sum of its votes, Σ_j x_ij.

    >>> crowd = MajorityOnline(tasks=2)
    >>> crowd.observe(0, 0, 1), crowd.observe(0, 1, 1), crowd.observe(1, 0, -1)
    (1, 2, -1)
    >>> crowd.estimate().prediction.tolist()
    [1, -1]
    """

    def __init__(self, tasks: int) -> None:
        self._balance = [0] * tasks

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's sum of votes."""
        balance = self._balance[task] + label
        self._balance[task] = balance
        return balance

    @property
    def score(self) -> Floats:
        """The sum of the votes on every task."""
        return np.array(self._balance, dtype=np.float64)

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score, is_log_odds=False)


def majority(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MajorityOnline:
    """Start MAJ, which takes no prior."""
    return MajorityOnline(size.tasks)
