"""Triangular estimation: a worker's reliability from agreement with two others.

With θ_j = 2 p_j - 1, the mean product of two workers' answers to the tasks they share estimates
C_jk = θ_j θ_k, so that for any three workers θ_k² = C_ik C_jk / C_ij. For worker k, TE takes the
pair (i, j) of others with the largest |C_ij|. It finds the signs from

    k* = argmax |θ_k² + Σ_i C_ik|,   sign θ_k* = sign of that sum,   sign θ_k = sign(θ_k* C_kk*)

and lets every worker vote with log((1 + θ) / (1 - θ)). Bonald, Combes: *A Minimax Optimal Algorithm
for Crowdsourcing*, NIPS 2017; as there, a pair that shares no task has C = 0.

Several pairs are often equally strong, and the result depends on the choice: here the first pair,
with the workers in order of first appearance.
"""

import numpy as np

from pipeline.inference.agreement import Agreement, StrongestPairs
from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels

MOST_RELIABLE = 1 - 1e-9  # keeps the weight of a vote finite


def te(labels: Labels, prior: Prior, rng: np.random.Generator) -> Estimate:
    """TE of Section 2.3. It uses no prior, and its score is not a log-odds.

    >>> crowd = Labels.of((t, w, 1) for t in ("t1", "t2") for w in ("ann", "bob", "cy"))
    >>> te(crowd, Prior(), np.random.default_rng()).prediction.tolist()
    [1, 1]
    """
    reliability = np.clip(reliabilities(labels), -MOST_RELIABLE, MOST_RELIABLE)
    weight = np.log1p(reliability) - np.log1p(-reliability)
    votes = labels.label * weight[labels.worker]
    return Estimate(summed(labels.task, votes, labels.tasks), is_log_odds=False)


def reliabilities(labels: Labels) -> Floats:
    """θ of every worker; 0, as for a guesser, where there is no triangle.

    >>> crowd = Labels.of((t, w, 1) for t in ("t1", "t2") for w in ("ann", "bob", "cy"))
    >>> reliabilities(crowd).tolist()
    [1.0, 1.0, 1.0]
    """
    if labels.workers < 3:
        return np.zeros(labels.workers)
    agreement = Agreement(labels)
    pairs = StrongestPairs(labels.workers)
    total = np.zeros(labels.workers)
    for worker in range(labels.workers):
        row = agreement.row(worker)
        total[worker] = row.sum()
        pairs.add(worker, row)
    size = sizes(agreement, pairs)
    return size * signs(agreement, size**2 + total)


def sizes(agreement: Agreement, pairs: StrongestPairs) -> Floats:
    """|θ| of every worker: one pair is used for all but its own two members."""
    pair = pairs.strongest()
    size = by_triangle(agreement, *pair)
    for member in pair:
        size[member] = by_triangle(agreement, *pairs.strongest(without=member))[member]
    return size


def by_triangle(agreement: Agreement, i: int, j: int) -> Floats:
    """√|C_ik C_jk / C_ij| for every worker k; 0 where C_ij is 0."""
    row = agreement.row(i)
    if row[j] == 0:
        return np.zeros_like(row)
    size: Floats = np.sqrt(np.abs(row * agreement.row(j) / row[j]))
    return size


def signs(agreement: Agreement, evidence: Floats) -> Floats:
    """The sign of θ of every worker, from that of k*, the worker with the most evidence."""
    surest = int(np.argmax(np.abs(evidence)))
    sign: Floats = np.sign(agreement.row(surest))
    sign[surest] = 1
    sign *= np.sign(evidence[surest])
    return sign
