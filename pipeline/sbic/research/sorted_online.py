"""Sorted SBIC (Algorithm 2), one label at a time: every label updates a view for every task."""

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import compiled
from sbic.engine.labels import Estimate, Floats, Ints, Prior
from sbic.research.online import CrowdSize

# A view's log-odds are limited to ±690: beyond, their exponential would overflow.
MOST_ODDS = 1e300
LEAST_ODDS = 1e-300


class SortedSBIC:
    """Learns from one label at a time, at a cost proportional to the number of tasks.

    In the view of task k (lines 5 to 7) a label x of worker j on another task i moves the log-odds
    s_i^k as in Fast SBIC. With odds o = exp(s) this takes no logarithm, only products and quotients
    over a row:

        o_i^k *= ((c_j^k + α) / (n_j^k - c_j^k + β)) ** x        c_j^k = Σ sig(x_hj s_h^k), h ≠ k

    Task k itself has the log-odds z_k of its own labels (lines 8 to 13), weighted by c_j^k of all
    their workers' other labels. When the row of task i changes, so do the c of the workers who
    answered i, and z of the other tasks that they answered; no other z changes. So z is updated
    after each label, not recomputed.

    Tasks and workers are numbers from 0; a worker can give `labels_per_worker` labels.

    >>> crowd = SortedSBIC(tasks=2, workers=2, labels_per_worker=2)
    >>> for task, worker, label in (0, 0, 1), (0, 1, 1), (1, 1, -1):
    ...     now = crowd.observe(task, worker, label)
    >>> crowd.score.round(6).tolist()
    [1.386294, -0.847298]
    """

    def __init__(
        self, tasks: int, workers: int, labels_per_worker: int, prior: Prior | None = None
    ) -> None:
        prior = prior or Prior()
        room = workers, labels_per_worker
        self._views = _Views(
            float(prior.alpha),
            float(prior.beta),
            np.full(tasks, prior.log_odds),
            np.full((tasks, tasks), prior.q / (1 - prior.q)),
            np.full((tasks, tasks), prior.q),
            np.empty(tasks),
            np.empty(tasks),
            np.zeros(workers, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int8),
            np.empty(room),
            np.full(tasks, -1),
            np.empty(workers * labels_per_worker, np.int64),
        )

    @property
    def score(self) -> Floats:
        """The log-odds of every task: one array, which changes with each label."""
        return self._views.log_odds

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count `label` (1 or -1) of a worker new to this task; return the task's log-odds."""
        _observe(task, worker, label, self._views)
        return float(self._views.log_odds[task])

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score.copy())


def sorted_sbic(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> SortedSBIC:
    """Start Algorithm 2."""
    return SortedSBIC(*size, prior)


class _Views(NamedTuple):
    """The arrays of the compiled code.

    Row i and column k of `odds` and `agreement` hold exp(s_i^k) and sig(s_i^k). The labels of
    worker j are the first given[j] of row j of `task`, `label` and `correct`, which is c_j^k where
    k is the label's own task. The labels on task i are newest[i], older[newest[i]] and so on until
    -1, as indices into those rows laid end to end.
    """

    alpha: float
    beta: float
    log_odds: Floats
    odds: Floats
    agreement: Floats
    factor: Floats
    rise: Floats
    given: NDArray[np.int32]
    task: NDArray[np.int32]
    label: NDArray[np.int8]
    correct: Floats
    newest: Ints
    older: Ints


@compiled
def _observe(i: int, j: int, x: int, views: _Views) -> None:
    _check(i, j, x, views)
    n = views.given[j]
    own = _find_factors(j, n, i, views)
    _move_row(i, x, views)
    _weigh_others(i, views)
    for slot in range(n):
        yes = views.agreement[i, views.task[j, slot]]
        _weigh(j, slot, yes if x > 0 else 1 - yes, n - 1, n, views)
    views.log_odds[i] += x * log((own + views.alpha) / (n - own + views.beta))

    place = j * views.task.shape[1] + n
    views.task[j, n] = i
    views.label[j, n] = x
    views.correct[j, n] = own
    views.older[place] = views.newest[i]
    views.newest[i] = place
    views.given[j] = n + 1


@compiled
def _check(i: int, j: int, x: int, views: _Views) -> None:
    """Refuse what compiled code would silently write past the end of an array."""
    if not (0 <= i < len(views.log_odds) and 0 <= j < len(views.given)):
        raise IndexError("there is no such task or worker")
    if x != 1 and x != -1:
        raise ValueError("a label is 1 or -1")
    if views.given[j] == views.task.shape[1]:
        raise ValueError("this worker has no room for another label")
    for slot in range(views.given[j]):
        if views.task[j, slot] == i:
            raise ValueError("this worker has answered this task before")


@compiled
def _find_factors(j: int, n: int, i: int, views: _Views) -> float:
    """Compute p / (1 - p) of worker j in every view (line 6); return c in the view of task i."""
    factor = views.factor
    factor[:] = 0
    for slot in range(n):
        row = views.agreement[views.task[j, slot]]
        if views.label[j, slot] > 0:
            for k in range(len(row)):
                factor[k] += row[k]
        else:
            for k in range(len(row)):
                factor[k] += 1 - row[k]
    own: float = factor[i]
    for k in range(len(factor)):
        factor[k] = (factor[k] + views.alpha) / (n - factor[k] + views.beta)
    for slot in range(n):  # the view of a task that j answered excludes that label
        c = views.correct[j, slot]
        factor[views.task[j, slot]] = (c + views.alpha) / (n - 1 - c + views.beta)
    return own


@compiled
def _move_row(i: int, x: int, views: _Views) -> None:
    """Add the label to s_i in all views but that of i (line 7); `rise`: the change of sig(s_i)."""
    odds, agreement = views.odds[i], views.agreement[i]
    views.factor[i] = 1
    for k in range(len(odds)):
        o = odds[k] * views.factor[k] if x > 0 else odds[k] / views.factor[k]
        o = MOST_ODDS if o > MOST_ODDS else LEAST_ODDS if o < LEAST_ODDS else o
        yes = o / (1 + o)
        views.rise[k] = yes - agreement[k]
        odds[k] = o
        agreement[k] = yes


@compiled
def _weigh_others(i: int, views: _Views) -> None:
    """Reweigh the labels on other tasks by the workers who answered task i before."""
    place = views.newest[i]
    while place >= 0:
        j = place // views.task.shape[1]
        x = views.label[j, place - j * views.task.shape[1]]
        others = views.given[j] - 1
        for slot in range(others + 1):
            k = views.task[j, slot]
            if k != i:
                _weigh(j, slot, x * views.rise[k], others, others, views)
        place = views.older[place]


@compiled
def _weigh(j: int, slot: int, gain: float, before: int, after: int, views: _Views) -> None:
    """Add `gain` to c of a label's view, now over `after` labels, and update z of its task."""
    old = views.correct[j, slot]
    new = min(max(old + gain, 0.0), float(after))  # rounding may leave it slightly outside
    views.correct[j, slot] = new
    right = (new + views.alpha) / (old + views.alpha)
    wrong = (after - new + views.beta) / (before - old + views.beta)
    views.log_odds[views.task[j, slot]] += views.label[j, slot] * log(right / wrong)
