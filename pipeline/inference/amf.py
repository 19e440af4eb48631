"""Approximate mean field: alternates between accuracies from beliefs and beliefs from accuracies.

The posterior is assumed to factorise (equation 4 of the paper) into μ_i for each task and
ν_j = Beta for each worker. With z_i the log-odds of μ_i, every iteration sets

    z_i = log(q / (1 - q)) + Σ_j x_ij log(p_j / (1 - p_j))
    p_j = (Σ_i sig(x_ij z_i) + α) / (|M_j| + α + β)

over the whole data set. Liu, Peng, Ihler: *Variational Inference for Crowdsourcing*, NIPS 2012;
the settings are those of Appendix B.
"""

from math import log

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior, sigmoid
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels

ITERATIONS = 50
LEAST_COUNT = 1e-9  # of right or wrong answers: keeps an accuracy inside (0, 1)


def amf(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = ITERATIONS
) -> Estimate:
    """AMF of Section 2.3, from p_j = α / (α + β).

    >>> pair = Labels.of([("t1", "ann", 1), ("t1", "bob", 1)])
    >>> amf(pair, Prior(), np.random.default_rng(), iterations=1).score.round(3).tolist()
    [1.386]
    """
    start = log(prior.alpha) - log(prior.beta)
    return Estimate(mean_field(labels, prior, prior.alpha, prior.beta, start, iterations))


def mean_field(
    labels: Labels, prior: Prior, right: float, wrong: float, start: float, iterations: int
) -> Floats:
    """The tasks' log-odds after so many iterations; every worker starts with the weight `start`.

    `right` and `wrong` are the counts that every worker starts with: α and β, or α - 1 and β - 1
    in EM.
    """
    is_yes = labels.label > 0
    weight = np.full(labels.workers, start)
    log_odds = np.full(labels.tasks, prior.log_odds)
    for _ in range(iterations):
        votes = labels.label * weight[labels.worker]
        log_odds = prior.log_odds + summed(labels.task, votes, labels.tasks)
        yes, no = sigmoid(log_odds)[labels.task], sigmoid(-log_odds)[labels.task]
        agreed = summed(labels.worker, np.where(is_yes, yes, no), labels.workers)
        opposed = summed(labels.worker, np.where(is_yes, no, yes), labels.workers)
        # log(p / (1 - p)), from two sums: their ratio would lose digits where one is tiny
        weight = np.log(np.maximum(agreed + right, LEAST_COUNT))
        weight -= np.log(np.maximum(opposed + wrong, LEAST_COUNT))
    return log_odds
