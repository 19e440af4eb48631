"""Fast SBIC (Algorithm 1), a label at a time, compiled: for crowds of a size known in advance.

The engine of the stream (`fast_sbic.FastSBIC`) takes any names, workers without end, and labels
back; this one is for simulations, which give each worker few labels and need none of that.
"""

from math import exp, log

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.compiled import compiled
from pipeline.inference.labels import Floats, Ints
from pipeline.inference.online import Answers, no_answers


class FastSBICOnline:
    """The sum of line 5 is made anew for every label, in O(labels per worker) as in the paper.

    >>> crowd = FastSBICOnline(tasks=2, workers=2, labels_per_worker=2, prior=Prior(2, 1))
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(0, 1, 1), 3)
    (0.693, 1.386)
    """

    def __init__(self, tasks: int, workers: int, labels_per_worker: int, prior: Prior) -> None:
        self._prior = prior
        self._answers, self._given = no_answers(workers, labels_per_worker)
        self._agreement = np.tile([1 - prior.q, prior.q], tasks)
        self.score = np.full(tasks, prior.log_odds)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        return observe(
            task,
            worker,
            label,
            self._answers,
            self._given,
            self._agreement,
            self.score,
            self._prior.alpha,
            self._prior.beta,
        )

    def estimate(self) -> Estimate:
        """What the labels so far say of each task."""
        return Estimate(self.score.copy())


@compiled
def observe(
    task: int,
    worker: int,
    label: int,
    answers: Answers,
    given: Ints,
    agreement: Floats,
    log_odds: Floats,
    alpha: float,
    beta: float,
) -> float:
    """Lines 5 and 6 of Algorithm 1; `agreement` of an answer x on task i is sig(x z_i)."""
    n = given[worker]
    correct = 0.0
    for place in range(n):
        correct += agreement[answers[worker, place]]
    z = log_odds[task] + label * log((correct + alpha) / (n - correct + beta))
    log_odds[task] = z
    tail = exp(-abs(z))
    likely, unlikely = 1 / (1 + tail), tail / (1 + tail)
    agreement[2 * task + 1] = likely if z >= 0 else unlikely
    agreement[2 * task] = unlikely if z >= 0 else likely
    answers[worker, n] = 2 * task + (label > 0)
    given[worker] = n + 1
    return float(z)
