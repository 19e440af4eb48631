"""AMF and EM, one label at a time: each label continues the iteration where it stopped.

The iteration is that of `amf`, over all labels so far. Its cost is proportional to their number, so
Appendix B makes 4 iterations after each label, and 50 from scratch once the labels are complete.
"""

from math import exp, log

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.amf import ITERATIONS, LEAST_COUNT
from pipeline.inference.compiled import compiled
from pipeline.inference.labels import Floats, Ints
from pipeline.inference.online.online import Answers, CrowdSize, no_answers

ITERATIONS_PER_LABEL = 4


class MeanFieldOnline:
    """Mean field in which each worker starts with the counts `right` and `wrong`.

    These are α and β in AMF, α - 1 and β - 1 in EM. The first weight is log(right / wrong).

    >>> crowd = MeanFieldOnline(2, 2, 2, Prior(4, 3), right=4, wrong=3)
    >>> [round(crowd.observe(*label), 3) for label in ((0, 0, 1), (0, 1, 1), (1, 0, -1))]
    [0.288, 0.666, -0.333]
    """

    def __init__(
        self,
        tasks: int,
        workers: int,
        labels_per_worker: int,
        prior: Prior,
        *,
        right: float,
        wrong: float,
        iterations_per_label: int = ITERATIONS_PER_LABEL,
    ) -> None:
        self._prior = prior
        self._right, self._wrong = right, wrong
        self._start = log(right) - log(wrong)
        self._iterations_per_label = iterations_per_label
        self._answers, self._given = no_answers(workers, labels_per_worker)
        self._known_workers = 0
        self._weight = np.full(workers, self._start)
        self._at_answer = np.zeros(2 * tasks)
        self.score = np.full(tasks, prior.log_odds)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        self._known_workers = max(self._known_workers, worker + 1)
        self._answers[worker, self._given[worker]] = 2 * task + (label > 0)
        self._given[worker] += 1
        self._iterate(self._weight, self.score, self._iterations_per_label)
        return float(self.score[task])

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far, by 50 iterations from scratch."""
        log_odds = np.empty_like(self.score)
        self._iterate(np.full_like(self._weight, self._start), log_odds, ITERATIONS)
        return Estimate(log_odds)

    def _iterate(self, weight: Floats, log_odds: Floats, iterations: int) -> None:
        iterate(
            self._answers,
            self._given,
            self._known_workers,
            self._at_answer,
            weight,
            log_odds,
            self._prior.log_odds,
            self._right,
            self._wrong,
            iterations,
        )


def em(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MeanFieldOnline:
    """Start EM."""
    return MeanFieldOnline(*size, prior, right=prior.alpha - 1, wrong=prior.beta - 1)


def amf(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MeanFieldOnline:
    """Start AMF."""
    return MeanFieldOnline(*size, prior, right=prior.alpha, wrong=prior.beta)


@compiled
def iterate(
    answers: Answers,
    given: Ints,
    known_workers: int,
    at_answer: Floats,
    weight: Floats,
    log_odds: Floats,
    prior_log_odds: float,
    right: float,
    wrong: float,
    iterations: int,
) -> None:
    """Alternate between beliefs from the workers' weights and weights from the beliefs.

    `at_answer` holds first the sum of the weights for each answer, then its probability.
    """
    for _ in range(iterations):
        at_answer[:] = 0
        for j in range(known_workers):
            for place in range(given[j]):
                at_answer[answers[j, place]] += weight[j]
        for i in range(len(log_odds)):
            z = prior_log_odds + at_answer[2 * i + 1] - at_answer[2 * i]
            log_odds[i] = z
            tail = exp(-abs(z))
            likely, unlikely = 1 / (1 + tail), tail / (1 + tail)
            at_answer[2 * i + 1] = likely if z >= 0 else unlikely
            at_answer[2 * i] = unlikely if z >= 0 else likely
        for j in range(known_workers):
            agreed = 0.0
            for place in range(given[j]):
                agreed += at_answer[answers[j, place]]
            odds = max(agreed + right, LEAST_COUNT) / max(given[j] - agreed + wrong, LEAST_COUNT)
            weight[j] = log(odds)
