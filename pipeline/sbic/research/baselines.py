"""The baselines of the paper, on whole files: mean field, EM, KOS and Monte Carlo."""

from math import log

import numpy as np

from sbic.engine.labels import Estimate, Floats, Labels, Prior, sigmoid
from sbic.infer.dawid_skene import summed, vote_balance

# Approximate mean field: alternates between accuracies from beliefs and beliefs from accuracies.
#
# The posterior is assumed to factorise (equation 4 of the paper) into μ_i for each task and
# ν_j = Beta for each worker. With z_i the log-odds of μ_i, every iteration sets
#
#     z_i = log(q / (1 - q)) + Σ_j x_ij log(p_j / (1 - p_j))
#     p_j = (Σ_i sig(x_ij z_i) + α) / (|M_j| + α + β)
#
# over the whole data set. Liu, Peng, Ihler: *Variational Inference for Crowdsourcing*, NIPS 2012;
# the settings are those of Appendix B.


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
    """Return the tasks' log-odds after these iterations, all workers of weight `start` first.

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


# Expectation maximisation: mean field with the mode of a worker's accuracy instead of its mean.
#
# Dawid, Skene: *Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm*,
# 1979, in the one-coin form of Appendix B of the paper: AMF with α - 1 and β - 1, since the mode of
# Beta(a, b) is (a - 1) / (a + b - 2).


def em(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = ITERATIONS
) -> Estimate:
    """EM of Section 2.3, from the prior's mode, or its mean where that mode is 0 or 1.

    The generic prior (2, 1) is such a case: its mode is 1 and the start is 2/3.

    >>> pair = Labels.of([("t1", "ann", 1), ("t1", "bob", 1)])
    >>> em(pair, Prior(4, 3), np.random.default_rng(), iterations=1).score.round(3).tolist()
    [0.811]
    """
    right, wrong = prior.alpha - 1, prior.beta - 1
    a, b = (right, wrong) if min(right, wrong) > 0 else (prior.alpha, prior.beta)
    start = log(a) - log(b)
    return Estimate(mean_field(labels, prior, right, wrong, start, iterations))


# KOS: the leading singular vector of the task-worker matrix.
#
# With X the matrix of labels (0 where there is none), w the workers' weights and z the tasks'
# scores, power iteration alternates
#
#     w = Xᵀ z,    z = X w
#
# from z = the majority, normalised to avoid overflow. Karger, Oh, Shah: *Budget-Optimal Task
# Allocation for Reliable Crowdsourcing Systems*, Operations Research 2014, in the matrix form of
# Appendix B of the paper.


KOS_ITERATIONS = 100
SYNTHETIC_ITERATIONS = 5  # Appendix B: more accurate than convergence on synthetic crowds


def kos(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = KOS_ITERATIONS
) -> Estimate:
    """KOS of Section 2.3. It uses no prior, and its score is not a log-odds.

    >>> two = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", -1)])
    >>> kos(two, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    score = normalised(vote_balance(labels))
    for _ in range(iterations):
        weight = summed(labels.worker, labels.label * score[labels.task], labels.workers)
        votes = labels.label * weight[labels.worker]
        score = normalised(summed(labels.task, votes, labels.tasks))
    return Estimate(score, is_log_odds=False)


def normalised(vector: Floats) -> Floats:
    """Return the vector at length 1; zero stays zero."""
    length = np.linalg.norm(vector)
    return vector if length == 0 else vector / length


# Monte Carlo: Gibbs sampling of the exact posterior of the model.
#
# With the workers' accuracies p and the tasks' truths y drawn alternately from
#
#     P(y_i = +1 | p, X) = sig(z_i),    z_i = log(q / (1 - q)) + Σ_j x_ij log(p_j / (1 - p_j))
#     p_j | y, X ~ Beta(α + right_j, β + wrong_j)
#
# the probability of +1 is the average of sig(z_i) over the sweeps. It has the same mean as the
# average of the draws of y_i, and less variance. Murphy: *Machine Learning, a Probabilistic
# Perspective*, 2012, chapter 24; the settings are those of Appendix B.


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
