"""Sorted SBIC (Algorithm 2) offline: estimates each task after all others, as if it came last.

Fast SBIC is most accurate on the tasks that come last, when it knows the workers best. Sorted SBIC
gives each task its own view s, in which all labels but the task's own have been observed; then it
adds the task's own labels (lines 9 to 13):

    z_i = log(q / (1 - q)) + Σ x_ij log(p_ij / (1 - p_ij))

with p_ij from j's labels on the other tasks. Offline the views can be shared (section 3.2): observe
all labels of one half of the tasks, and recurse into the other half in that state. This takes
O(log |M|) passes over the labels instead of |M|. The tasks are halved in the order of their first
appearance. Since the other labels are observed half by half, not in order of arrival, the log-odds
differ from those of one view per task by up to about 1.
"""

from typing import NamedTuple

import numpy as np

from sbic.engine.compiled import kernel
from sbic.engine.engine import Engine
from sbic.engine.formulas import vote_of
from sbic.engine.labels import Estimate, Floats, Ints, Labels, Prior
from sbic.engine.ledger import last_label, remove
from sbic.engine.state import GIVEN, LABELS, RIGHT, State
from sbic.engine.taking import take_one
from sbic.engine.update import begin


class _Scratch(NamedTuple):
    """The labels, and their numbers by group of tasks, in order of arrival within each group.

    `correct` saves c of each label's worker while the label's group is observed.
    """

    task: Ints
    worker: Ints
    answer: Ints
    order: Ints
    spare: Ints
    correct: Floats


def sorted_sbic(labels: Labels, prior: Prior, rng: np.random.Generator) -> Estimate:
    """Run Algorithm 2 with shared views over `labels` in their order.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> sorted_sbic(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    assert labels.are_signs
    engine = Engine("fast-sbic", prior=prior)
    engine.make_room(labels.tasks, labels.workers, len(labels))
    every = np.arange(len(labels))
    columns = labels.task, labels.worker, labels.answer
    scratch = _Scratch(*columns, every, np.empty_like(every), np.empty(len(labels)))
    log_odds = np.full(labels.tasks, prior.log_odds)
    if labels.tasks:
        _judge(0, labels.tasks, 0, len(labels), engine.state, scratch, log_odds)
    return Estimate(log_odds)


@kernel
def _judge(
    low: int, high: int, start: int, end: int, state: State, scratch: _Scratch, log_odds: Floats
) -> None:
    """Estimate tasks low to high, in a state in which the labels of all others have been observed.

    Their labels are order[start:end]; the state is the same afterwards.
    """
    if high - low == 1:
        for place in range(start, end):
            t = scratch.order[place]
            log_odds[low] += vote_of(state, scratch.worker[t], scratch.answer[t])
        return
    half = (low + high) // 2
    middle = _part(half, start, end, scratch)
    _observe(middle, end, state, scratch)
    _judge(low, half, start, middle, state, scratch, log_odds)
    _forget(middle, end, state, scratch)
    _observe(start, middle, state, scratch)
    _judge(half, high, middle, end, state, scratch, log_odds)
    _forget(start, middle, state, scratch)
    _join(start, middle, end, scratch)


@kernel
def _observe(start: int, end: int, state: State, scratch: _Scratch) -> None:
    """Observe order[start:end], and save what `_forget` needs."""
    for place in range(start, end):
        scratch.correct[place] = state.worker[scratch.worker[scratch.order[place]], RIGHT]
    for place in range(start, end):
        t = scratch.order[place]
        take_one(state, scratch.task[t], scratch.worker[t], scratch.answer[t])


@kernel
def _forget(start: int, end: int, state: State, scratch: _Scratch) -> None:
    """Restore the earlier state to the last bit: c is restored, not recomputed by subtraction."""
    for place in range(start, end):
        t = scratch.order[place]
        i, j = scratch.task[t], scratch.worker[t]
        state.worker[j, RIGHT] = scratch.correct[place]
        state.worker[j, GIVEN] -= 1.0
        remove(state, i, last_label(state, i))  # all labels of this task are removed
        if state.task[i, LABELS] == 0:
            begin(state, i)


@kernel
def _part(half: int, start: int, end: int, scratch: _Scratch) -> int:
    """Partition the labels: those of tasks below `half` first; return where the others start."""
    middle, others = start, 0
    for place in range(start, end):
        t = scratch.order[place]
        if scratch.task[t] < half:
            scratch.order[middle] = t
            middle += 1
        else:
            scratch.spare[others] = t
            others += 1
    for place in range(others):
        scratch.order[middle + place] = scratch.spare[place]
    return middle


@kernel
def _join(start: int, middle: int, end: int, scratch: _Scratch) -> None:
    """Merge the two parts into one, in order of arrival."""
    order, spare = scratch.order, scratch.spare
    first, second = start, middle
    for place in range(end - start):
        if second == end or (first < middle and order[first] < order[second]):
            spare[place] = order[first]
            first += 1
        else:
            spare[place] = order[second]
            second += 1
    for place in range(end - start):
        order[start + place] = spare[place]
