"""Monte Carlo: Gibbs sampling of the exact posterior of the model.

With the workers' accuracies p and the tasks' truths y drawn alternately from

    P(y_i = +1 | p, X) = sig(z_i),    z_i = log(q / (1 - q)) + Σ_j x_ij log(p_j / (1 - p_j))
    p_j | y, X ~ Beta(α + right_j, β + wrong_j)

the probability of +1 is the average of sig(z_i) over the sweeps. It has the same mean as the
average of the draws of y_i, and less variance. Murphy: *Machine Learning, a Probabilistic
Perspective*, 2012, chapter 24; the settings are those of Appendix B.
"""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels

SWEEPS = 500
NEAREST_TO_CERTAIN = 1e-12  # keeps log(p / (1 - p)) finite where α or β is tiny


def mc(labels: Labels, prior: Prior, rng: np.random.Generator, sweeps: int = SWEEPS) -> Estimate:
    """MC of Section 2.3; the chain starts from the prior on the workers.

    >>> pair = Labels.of([("t1", "ann", 1), ("t1", "bob", 1)])
    >>> mc(pair, Prior(), np.random.default_rng(1), sweeps=5000).probability.round(1).tolist()
    [0.8]
    """
    answers = np.bincount(labels.worker, minlength=labels.workers)
    accuracy = rng.beta(prior.alpha, prior.beta, labels.workers)
    log_yes = np.full(labels.tasks, -np.inf)
    log_no = np.full(labels.tasks, -np.inf)
    for _ in range(sweeps):
        log_odds = beliefs(labels, prior, accuracy)
        # log sig(z) and log sig(-z) summed in logarithms: a probability near 1 keeps its log-odds
        yes = -np.logaddexp(0, -log_odds)
        log_yes = np.logaddexp(log_yes, yes)
        log_no = np.logaddexp(log_no, yes - log_odds)
        truth = np.where(rng.random(labels.tasks) < np.exp(yes), 1, -1)
        right = summed(labels.worker, labels.label == truth[labels.task], labels.workers)
        accuracy = rng.beta(prior.alpha + right, prior.beta + (answers - right))
    return Estimate(log_yes - log_no)


def beliefs(labels: Labels, prior: Prior, accuracy: Floats) -> Floats:
    """z: the log-odds of every task if these were the workers' accuracies."""
    p = np.clip(accuracy, NEAREST_TO_CERTAIN, 1 - NEAREST_TO_CERTAIN)
    votes = labels.label * np.log(p / (1 - p))[labels.worker]
    total: Floats = prior.log_odds + summed(labels.task, votes, labels.tasks)
    return total
