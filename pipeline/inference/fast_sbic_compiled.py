"""Fast SBIC (Algorithm 1) over a whole data set at once, as one compiled loop over arrays."""

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.algorithm import Prior
from pipeline.inference.compiled import compiled
from pipeline.inference.labels import Floats, Ints, Labels


def log_odds_of_all(labels: Labels, prior: Prior) -> Floats:
    """The log-odds of every task after all labels, in their order."""
    log_odds = np.full(labels.tasks, prior.log_odds)
    first = first_places(labels)
    observe_all(
        np.arange(len(labels)),
        labels.task,
        labels.worker,
        labels.label,
        first,
        first[:-1].copy(),
        np.empty(len(labels), np.int32),
        log_odds,
        np.full(labels.tasks, prior.q),
        np.zeros(labels.workers),
        np.zeros(labels.workers),
        prior.alpha,
        prior.beta,
    )
    return log_odds


def first_places(labels: Labels) -> Ints:
    """Where each task's part begins in an array with a place for every label, task by task."""
    first = np.zeros(labels.tasks + 1, np.int64)
    np.cumsum(np.bincount(labels.task, minlength=labels.tasks), out=first[1:])
    return first


@compiled
def observe_all(
    order: Ints,
    task: Ints,
    worker: Ints,
    label: Ints,
    first: Ints,
    end: Ints,
    said: NDArray[np.int32],
    log_odds: Floats,
    agreement: Floats,
    given: Floats,
    correct: Floats,
    alpha: float,
    beta: float,
) -> None:
    """Observe the labels numbered in `order`; z, sig(z), n and c are changed in place.

    Who answered task i so far is in said[first[i]:end[i]], as 2j + 1 for +1 and 2j for -1; their
    c follow z_i as in `FastSBIC`, so that no worker is too prolific.
    """
    for t in order:
        i, j, x = task[t], worker[t], label[t]
        n = given[j]
        c = min(max(correct[j], 0.0), n)
        z = log_odds[i] + x * log((c + alpha) / (n - c + beta))
        tail = exp(-abs(z))
        yes = 1 / (1 + tail)
        if z < 0:
            yes *= tail
        rise = yes - agreement[i]
        for place in range(first[i], end[i]):
            other = said[place]
            correct[other >> 1] += rise if other & 1 else -rise
        said[end[i]] = 2 * j + (x > 0)
        end[i] += 1
        log_odds[i] = z
        agreement[i] = yes
        given[j] = n + 1
        correct[j] += yes if x > 0 else 1 - yes
