"""A simulated crowd: tasks of known truth, and workers who answer them as well as they can."""

from dataclasses import dataclass

import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.labels import Ints
from pipeline.tools.sending import Label

ACCURACY = Prior(alpha=4, beta=3)  # of the workers who try: of seven answers they get four right
SPAMMERS = 0.2  # the share of workers who toss a coin


@dataclass(frozen=True)
class Crowd:
    """The truth of each task, and the labels in the order in which they are given."""

    tasks: list[str]
    truth: Ints
    workers: int
    labels: list[Label]


def simulated(tasks: int, workers: int, labels: int, seed: int) -> Crowd:
    """Workers who come in random order, each answering random tasks, none twice.

    >>> crowd = simulated(tasks=10, workers=5, labels=20, seed=1)
    >>> len(crowd.labels), len({(task, worker) for task, worker, _ in crowd.labels})
    (20, 20)
    """
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1, 1], tasks)
    accuracy = rng.beta(ACCURACY.alpha, ACCURACY.beta, workers)
    accuracy[rng.random(workers) < SPAMMERS] = 0.5
    task, worker = np.divmod(rng.choice(tasks * workers, labels, replace=False), workers)
    label = np.where(rng.random(labels) < accuracy[worker], truth[task], -truth[task])
    names = [f"task-{number:04}" for number in range(tasks)]
    answers = zip(task.tolist(), worker.tolist(), label.tolist(), strict=True)
    return Crowd(names, truth, workers, [(names[t], f"worker-{w:03}", x) for t, w, x in answers])
