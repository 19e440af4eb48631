"""A simulated crowd (Appendix B): who is free when, and what they will say.

The accuracy of a worker is drawn from Beta(4, 3), and they give L labels. Whether a label is right
does not depend on its task, and so is drawn before the task is chosen. The truth of each task is
drawn too, +1 or -1: the paper has +1 for all, which an algorithm that learns how frequent the
classes are would find out.

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
    """The truth of each task, and for each label to come its worker and whether it is right (1)."""

    tasks: int
    workers: int
    labels_per_worker: int
    worker: Ints
    right: Ints
    truth: Ints


def draw_crowd(
    tasks: int,
    labels_per_task: int,
    labels_per_worker: int,
    arrival: str,
    rng: np.random.Generator,
) -> Crowd:
    """As many workers as give so many labels for each task on average; some may give fewer.

    >>> crowd = draw_crowd(4, 2, 3, "blocks", np.random.default_rng(1))
    >>> crowd.worker.tolist(), len(crowd.right)
    ([0, 0, 0, 1, 1, 1, 2, 2], 8)
    """
    total = tasks * labels_per_task
    workers = -(-total // labels_per_worker)
    worker = arrivals(workers, labels_per_worker, arrival, rng)[:total]
    accuracy = rng.beta(PRIOR.alpha, PRIOR.beta, workers)
    right = np.where(rng.random(total) < accuracy[worker], 1, -1)
    truth = rng.choice([-1, 1], tasks)
    return Crowd(tasks, workers, labels_per_worker, worker, right, truth)


def arrivals(workers: int, labels_per_worker: int, arrival: str, rng: np.random.Generator) -> Ints:
    """The worker who gives each label."""
    if arrival == "blocks":
        return np.repeat(np.arange(workers), labels_per_worker)
    return np.concatenate([rng.permutation(workers) for _ in range(labels_per_worker)])
