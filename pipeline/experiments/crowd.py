"""A simulated crowd (Appendix B): who is free when, and what they will say.

The accuracy of a worker is drawn from Beta(4, 3), and they give L labels. The truth of every task
is +1 by convention, so that a label is +1 with the worker's accuracy whatever the task, and can be
drawn before the task is chosen; no algorithm may prefer +1 (the prior is q = 1/2).

In which order the workers come the paper does not say, and it matters (see `figure1`):

    blocks        each worker gives all their labels in a row, then leaves
    interleaved   all workers come once in a random order, then all once more in another, ...
"""

from dataclasses import dataclass

import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.labels import Ints

PRIOR = Prior(alpha=4, beta=3)  # of the crowd, and known to the algorithms
ARRIVALS = ("blocks", "interleaved")


@dataclass(frozen=True)
class Crowd:
    """For each label to come, its worker and what they will say."""

    tasks: int
    workers: int
    labels_per_worker: int
    worker: Ints
    label: Ints


def draw_crowd(
    tasks: int,
    labels_per_task: int,
    labels_per_worker: int,
    arrival: str,
    rng: np.random.Generator,
) -> Crowd:
    """As many workers as give so many labels for each task on average; some may give fewer.

    >>> crowd = draw_crowd(4, 2, 3, "blocks", np.random.default_rng(1))
    >>> crowd.worker.tolist(), len(crowd.label)
    ([0, 0, 0, 1, 1, 1, 2, 2], 8)
    """
    total = tasks * labels_per_task
    workers = -(-total // labels_per_worker)
    worker = arrivals(workers, labels_per_worker, arrival, rng)[:total]
    accuracy = rng.beta(PRIOR.alpha, PRIOR.beta, workers)
    label = np.where(rng.random(total) < accuracy[worker], 1, -1)
    return Crowd(tasks, workers, labels_per_worker, worker, label)


def arrivals(workers: int, labels_per_worker: int, arrival: str, rng: np.random.Generator) -> Ints:
    """The worker who gives each label."""
    if arrival == "blocks":
        return np.repeat(np.arange(workers), labels_per_worker)
    return np.concatenate([rng.permutation(workers) for _ in range(labels_per_worker)])
