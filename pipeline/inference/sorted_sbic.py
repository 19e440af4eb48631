"""Sorted SBIC (Algorithm 2) offline: every task is judged last, by workers who are known by then.

Fast SBIC is surest of the tasks that come last, when it knows the workers best. Sorted SBIC gives
each task a view s of its own, in which all labels but the task's own have been observed; then it
adds the task's own (lines 9 to 13):

    z_i = log(q / (1 - q)) + Σ x_ij log(p_ij / (1 - p_ij))

with p_ij from j's labels on the other tasks. Offline the views can be shared (section 3.2): to
give each half of the tasks a state in which all labels of the other half have been observed,
observe them, and go on with the half's own halves in that state. That is O(log |M|) passes over
the labels instead of |M|. The tasks are halved in the order of their first appearance. Since the
other labels are not observed in their order of arrival but half by half, the result differs from
that of a view per task, by up to about 1 in the log-odds.
"""

from math import log
from typing import NamedTuple

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.compiled import compiled
from pipeline.inference.fast_sbic_compiled import Crowd, State, before_all, observe_all
from pipeline.inference.labels import Floats, Ints, Labels


class _Scratch(NamedTuple):
    """The labels' numbers, group by group of tasks, in order of arrival within each group.

    `correct` remembers c of each label's worker while the label's group is observed.
    """

    order: Ints
    spare: Ints
    correct: Floats


def sorted_sbic(labels: Labels, prior: Prior, rng: np.random.Generator) -> Estimate:
    """Run Algorithm 2 with shared views over `labels` in their order.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> sorted_sbic(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    crowd, state = before_all(labels, prior)
    everything = np.arange(len(labels))
    scratch = _Scratch(everything, np.empty_like(everything), np.empty(len(labels)))
    log_odds = np.full(labels.tasks, prior.log_odds)
    if labels.tasks:
        _judge(0, labels.tasks, 0, len(labels), crowd, state, scratch, log_odds)
    return Estimate(log_odds)


@compiled
def _judge(
    low: int,
    high: int,
    begin: int,
    end: int,
    crowd: Crowd,
    state: State,
    scratch: _Scratch,
    log_odds: Floats,
) -> None:
    """Judge tasks low to high, in a state in which the labels of all others have been observed.

    Their labels are order[begin:end]; the state is left as it was found.
    """
    if high - low == 1:
        for t in scratch.order[begin:end]:
            n = state.given[crowd.worker[t]]
            c = min(max(state.correct[crowd.worker[t]], 0.0), n)
            log_odds[low] += crowd.label[t] * log((c + crowd.alpha) / (n - c + crowd.beta))
        return
    half = (low + high) // 2
    middle = _part(half, begin, end, crowd, scratch)
    _observe(middle, end, crowd, state, scratch)
    _judge(low, half, begin, middle, crowd, state, scratch, log_odds)
    _forget(middle, end, crowd, state, scratch)
    _observe(begin, middle, crowd, state, scratch)
    _judge(half, high, middle, end, crowd, state, scratch, log_odds)
    _forget(begin, middle, crowd, state, scratch)
    _join(begin, middle, end, scratch)


@compiled
def _observe(begin: int, end: int, crowd: Crowd, state: State, scratch: _Scratch) -> None:
    """Observe order[begin:end], so that it can be forgotten."""
    for place in range(begin, end):
        scratch.correct[place] = state.correct[crowd.worker[scratch.order[place]]]
    observe_all(scratch.order[begin:end], crowd, state)


@compiled
def _forget(begin: int, end: int, crowd: Crowd, state: State, scratch: _Scratch) -> None:
    """Bring the state back to what it was, to the last bit: nothing is subtracted from c."""
    for place in range(begin, end):
        t = scratch.order[place]
        i, j = crowd.task[t], crowd.worker[t]
        state.correct[j] = scratch.correct[place]
        state.given[j] -= 1
        state.end[i] = crowd.first[i]
        state.log_odds[i] = log(crowd.q / (1 - crowd.q))
        state.agreement[i] = crowd.q


@compiled
def _part(half: int, begin: int, end: int, crowd: Crowd, scratch: _Scratch) -> int:
    """Let the labels of tasks below `half` come first; return where the others begin."""
    middle, others = begin, 0
    for place in range(begin, end):
        t = scratch.order[place]
        if crowd.task[t] < half:
            scratch.order[middle] = t
            middle += 1
        else:
            scratch.spare[others] = t
            others += 1
    scratch.order[middle:end] = scratch.spare[:others]
    return middle


@compiled
def _join(begin: int, middle: int, end: int, scratch: _Scratch) -> None:
    """Merge the two parts back into one, in order of arrival."""
    order, spare = scratch.order, scratch.spare
    first, second = begin, middle
    for place in range(end - begin):
        if second == end or (first < middle and order[first] < order[second]):
            spare[place] = order[first]
            first += 1
        else:
            spare[place] = order[second]
            second += 1
    order[begin:end] = spare[: end - begin]
