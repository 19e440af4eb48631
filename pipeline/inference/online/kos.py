"""KOS, one label at a time: the power iteration of `kos`, from the majority, after every label."""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.compiled import compiled
from pipeline.inference.kos import SYNTHETIC_ITERATIONS
from pipeline.inference.labels import Floats, Ints
from pipeline.inference.online.online import Answers, CrowdSize, no_answers


class KOSOnline:
    """Each label changes the score of every task and costs a few passes over all labels so far.

    >>> crowd = KOSOnline(tasks=2, workers=2, labels_per_worker=2)
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(1, 0, -1), 3)
    (1.0, -0.707)
    """

    def __init__(self, tasks: int, workers: int, labels_per_worker: int) -> None:
        self._answers, self._given = no_answers(workers, labels_per_worker)
        self._known_workers = 0
        self._balance = np.zeros(2 * tasks)
        self._support = np.zeros(2 * tasks)
        self._votes = np.zeros(2 * tasks)
        self.score = np.zeros(tasks)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's score."""
        self._known_workers = max(self._known_workers, worker + 1)
        return observe(
            task,
            worker,
            label,
            self._answers,
            self._given,
            self._known_workers,
            self._balance,
            self._support,
            self._votes,
            self.score,
        )

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score.copy(), is_log_odds=False)


def kos(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> KOSOnline:
    """Start KOS, which takes no prior."""
    return KOSOnline(*size)


@compiled
def observe(
    task: int,
    worker: int,
    label: int,
    answers: Answers,
    given: Ints,
    known_workers: int,
    balance: Floats,
    support: Floats,
    votes: Floats,
    score: Floats,
) -> float:
    """Add the label to the majority and iterate from there; the `support` of an answer x is x z_i.

    So few iterations cannot overflow, so the vector is normalised only at the end.
    """
    answers[worker, given[worker]] = 2 * task + (label > 0)
    given[worker] += 1
    balance[2 * task + 1] += label
    balance[2 * task] -= label
    support[:] = balance
    for _ in range(SYNTHETIC_ITERATIONS):
        votes[:] = 0
        for j in range(known_workers):
            weight = 0.0
            for place in range(given[j]):
                weight += support[answers[j, place]]
            for place in range(given[j]):
                votes[answers[j, place]] += weight
        for i in range(len(score)):
            z = votes[2 * i + 1] - votes[2 * i]
            support[2 * i + 1], support[2 * i] = z, -z
    score[:] = support[1::2]
    length = np.sqrt(np.sum(score * score))
    if length > 0:
        score /= length
    return float(score[task])
