"""A simulated crowd (Appendix B of the paper): the order of workers, and their labels.

The accuracy of a worker is drawn from Beta(4, 3), and they give L labels. Whether a label is right
does not depend on its task, and so is drawn before the task is chosen. The truth of each task is
drawn too, +1 or -1: in the paper it is always +1, which an algorithm that estimates the frequency
of the classes would learn.

The paper does not give the order in which workers arrive, and it matters (see `figure1`):

    blocks        each worker gives all their labels in a row, then leaves
    interleaved   all workers give one label in a random order, then one more in another, ...
"""

from dataclasses import dataclass

import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.labels import Ints

PRIOR = Prior(alpha=4, beta=3)  # the distribution of accuracies, known to the algorithms
ARRIVALS = ("blocks", "interleaved")


@dataclass(frozen=True)
class Crowd:
    """The truth of each task, and for each label its worker and whether it is right (1 or -1)."""

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
    """Draw as many workers as needed for `labels_per_task` on average; the last may give fewer.

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
