"""Triangular estimation: a worker's reliability from agreement with two others.

With θ_j = 2 p_j - 1, the mean product of two workers' answers to the tasks they share estimates
C_jk = θ_j θ_k, so that for any three workers θ_k² = C_ik C_jk / C_ij. For worker k, TE takes the
pair (i, j) of others with the largest |C_ij|. It finds the signs from

    k* = argmax |θ_k² + Σ_i C_ik|,   sign θ_k* = sign of that sum,   sign θ_k = sign(θ_k* C_kk*)

and lets every worker vote with log((1 + θ) / (1 - θ)). Bonald, Combes: *A Minimax Optimal
Algorithm for Crowdsourcing*, NIPS 2017; as there, a pair that shares no task has C = 0.

Several pairs are often equally strong, and the result depends on the choice: here the first pair,
with the workers in order of first appearance.
"""

import numpy as np

from sbic.engine.labels import Estimate, Floats, Labels, Prior
from sbic.infer.dawid_skene import grouped, ranges, summed

# How often pairs of workers agree: the input of triangular estimation.
#
# C_jk is the mean of x_ij x_ik over the tasks i that workers j and k both labelled, 0 if they share
# none. It is computed one row at a time, in O(labels on the worker's tasks), because the whole
# matrix of a large crowd would not fit in memory.


class Agreement:
    """The rows of C, with 0 on the diagonal.

    >>> Agreement(Labels.of([("t1", "ann", 1), ("t1", "bob", -1), ("t2", "cy", 1)])).row(0).tolist()
    [0.0, -1.0, 0.0]
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._by_task, self._task_start = grouped(labels.task, labels.tasks)
        self._by_worker, self._worker_start = grouped(labels.worker, labels.workers)
        self._task_size = np.diff(self._task_start)

    def row(self, worker: int) -> Floats:
        """C_jk for j = worker and every k."""
        labels = self._labels
        own = self._by_worker[self._worker_start[worker] : self._worker_start[worker + 1]]
        tasks = labels.task[own]
        size = self._task_size[tasks]
        beside = self._by_task[ranges(self._task_start[tasks], size)]
        product = labels.label[beside] * np.repeat(labels.label[own], size)
        shared = np.bincount(labels.worker[beside], minlength=labels.workers)
        row = summed(labels.worker[beside], product, labels.workers) / np.maximum(shared, 1)
        row[worker] = 0
        return row


class StrongestPairs:
    """For each worker i the two workers j > i with the largest |C_ij|, the first among equals.

    Two are kept so that the strongest pair without a given worker can be found.

    >>> pairs = StrongestPairs(3)
    >>> pairs.add(0, np.array([0, 0.5, -0.9])); pairs.add(1, np.array([0.5, 0, 0.1]))
    >>> pairs.strongest(), pairs.strongest(without=2), pairs.strongest(without=0)
    ((0, 2), (0, 1), (1, 2))
    """

    def __init__(self, workers: int) -> None:
        self._partner = np.zeros((2, workers), dtype=np.int64)
        self._strength = np.full((2, workers), -1.0)

    def add(self, worker: int, row: Floats) -> None:
        """Add this worker's row of C."""
        later = np.abs(row[worker + 1 :])
        for rank in range(min(2, len(later))):
            best = int(np.argmax(later))
            self._partner[rank, worker] = worker + 1 + best
            self._strength[rank, worker] = later[best]
            later[best] = -1

    def strongest(self, without: int = -1) -> tuple[int, int]:
        """Return the pair with the largest |C_ij|, the first among equals."""
        rank = (self._partner[0] == without).astype(np.int64)
        every = np.arange(len(rank))
        strength = np.where(every == without, -1.0, self._strength[rank, every])
        i = int(np.argmax(strength))
        return i, int(self._partner[rank[i], i])


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
    """Return the sign of θ of every worker, from that of k*, the worker with the most evidence."""
    surest = int(np.argmax(np.abs(evidence)))
    sign: Floats = np.sign(agreement.row(surest))
    sign[surest] = 1
    sign *= np.sign(evidence[surest])
    return sign
