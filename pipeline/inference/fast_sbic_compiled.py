"""Fast SBIC (Algorithm 1) over a whole data set at once, as one compiled loop over arrays."""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.algorithm import Prior
from pipeline.inference.compiled import compiled
from pipeline.inference.labels import Floats, Ints, Labels


class Crowd(NamedTuple):
    """The labels and the prior: what stays the same from label to label.

    Each task has a part of its own in an array with a place for every label; it begins at `first`.
    """

    task: Ints
    worker: Ints
    label: Ints
    first: Ints
    alpha: float
    beta: float
    q: float


class State(NamedTuple):
    """z and sig(z) of every task, n and c of every worker, and who answered each task so far.

    Those who answered task i are in said[first[i]:end[i]], as 2j + 1 for +1 and 2j for -1.
    """

    log_odds: Floats
    agreement: Floats
    given: Floats
    correct: Floats
    said: NDArray[np.int32]
    end: Ints


def before_all(labels: Labels, prior: Prior) -> tuple[Crowd, State]:
    """The labels as the compiled loop takes them, and the state before the first of them."""
    first = np.zeros(labels.tasks + 1, np.int64)
    np.cumsum(np.bincount(labels.task, minlength=labels.tasks), out=first[1:])
    numbers = float(prior.alpha), float(prior.beta), float(prior.q)  # an int would compile anew
    crowd = Crowd(labels.task, labels.worker, labels.label, first[:-1], *numbers)
    state = State(
        np.full(labels.tasks, prior.log_odds),
        np.full(labels.tasks, prior.q),
        np.zeros(labels.workers),
        np.zeros(labels.workers),
        np.empty(len(labels), np.int32),
        first[:-1].copy(),
    )
    return crowd, state


def log_odds_of_all(labels: Labels, prior: Prior) -> Floats:
    """The log-odds of every task after all labels, in their order."""
    crowd, state = before_all(labels, prior)
    observe_all(np.arange(len(labels)), crowd, state)
    return state.log_odds


@compiled
def observe_all(order: Ints, crowd: Crowd, state: State) -> None:
    """Observe the labels numbered in `order`, one after the other.

    c of all who answered a task follows its z, as for prolific workers in `FastSBIC`: a sum over
    the worker's labels would be slower with 50 of them, and quadratic with a million.
    """
    for t in order:
        i, j, x = crowd.task[t], crowd.worker[t], crowd.label[t]
        n = state.given[j]
        c = min(max(state.correct[j], 0.0), n)
        z = state.log_odds[i] + x * log((c + crowd.alpha) / (n - c + crowd.beta))
        yes = 1 / (1 + exp(min(-z, 700.0)))  # of more than 709 the exponential overflows
        rise = yes - state.agreement[i]
        last = state.end[i]
        for place in range(crowd.first[i], last):
            other = state.said[place]
            state.correct[other >> 1] += rise * (2 * (other & 1) - 1)  # no branch to mispredict
        state.said[last] = 2 * j + (x > 0)
        state.end[i] = last + 1
        state.log_odds[i] = z
        state.agreement[i] = yes
        state.given[j] = n + 1
        state.correct[j] += yes if x > 0 else 1 - yes
