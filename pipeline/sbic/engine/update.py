"""A task's belief from its score, and the counts of workers and crowd that follow from it."""

from math import exp, log

import numpy as np

from sbic.engine.compiled import kernel
from sbic.engine.due import has_moved, make_worker_due, worker_has_moved
from sbic.engine.formulas import M, add_up, reweigh
from sbic.engine.ledger import answer_of, following, worker_of
from sbic.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ANSWER,
    BELIEF,
    CHANGE,
    CHUNK,
    FIRST,
    FIXED,
    GIVEN,
    GOLD,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    NEXT,
    NONE,
    ON_GOLD,
    PATH,
    PRIOR,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    TASK_PATH,
    TOLERANCE,
    WHO,
    WORKER_IS_HERE,
    State,
)


@kernel
def refresh(state: State, i: int) -> float:
    """Recompute the belief of task i; return how far the probability of any class moved.

    Gold does not move, nor does a task that another engine computes. Under Fast SBIC the log-odds
    of gold are still summed, since gold may be withdrawn.
    """
    if state.task[i, IS_HERE]:
        if not state.whole[IS_SETTLED]:
            add_up(state, i)
        elif state.task[i, LABELS] > 0:
            reweigh(state, i)
    return follow_score(state, i)


@kernel
def follow_score(state: State, i: int) -> float:
    """Set the belief to the softmax of the score, or to certainty for gold."""
    change = state.by_class[CHANGE]
    classes = len(change)
    belief = state.belief[i, BELIEF : BELIEF + classes]
    gold = state.task[i, GOLD]
    if gold != NONE:
        for k in range(classes):
            change[k] = (1.0 if k == gold else 0.0) - belief[k]
        return move(state, i)
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    most = score[0]
    for k in range(1, classes):
        most = max(most, score[k])
    total = 0.0
    for k in range(classes):
        change[k] = exp(score[k] - most)
        total += change[k]
    for k in range(classes):
        change[k] = change[k] / total - belief[k]
    return move(state, i)


@kernel
def move(state: State, i: int) -> float:
    """Add CHANGE to the belief of task i and update the counts; return the largest change."""
    change = state.by_class[CHANGE]
    farthest = 0.0
    for k in range(len(change)):
        state.belief[i, BELIEF + k] += change[k]
        farthest = max(farthest, abs(change[k]))
    if farthest == 0.0:
        return 0.0
    if informs_prior(state, i):
        for k in range(len(change)):
            state.by_class[RHO, k] += change[k]
    _follow_belief(state, i)
    state.belief[i, TASK_PATH] += farthest
    if state.belief[i, TASK_PATH] > state.crowd[TOLERANCE]:
        has_moved(state, i)
    return farthest


@kernel
def _follow_belief(state: State, i: int) -> None:
    change = state.by_class[CHANGE]
    worker = state.worker
    tolerance = state.crowd[TOLERANCE] if state.whole[IS_SETTLED] else np.inf
    right = 0.0
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            j = state.chunk[chunk, WHO + place]
            if worker[j, WORKER_IS_HERE]:
                gain = change[state.answer[chunk, ANSWER + place]]
                right += gain
                worker[j, RIGHT] += gain
                worker[j, PATH] += abs(gain)
                if worker[j, PATH] > tolerance * (worker[j, GIVEN] + M):
                    make_worker_due(state, j)
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    state.crowd[ALL_RIGHT] += right


@kernel
def add_to_path(state: State, j: int, far: float) -> None:
    """Add to the path of worker j's counts; beyond the tolerance, the worker's tasks are due."""
    if state.whole[IS_SETTLED]:
        worker = state.worker[j]
        worker[PATH] += far
        if worker[PATH] > state.crowd[TOLERANCE] * (worker[GIVEN] + M):
            make_worker_due(state, j)


@kernel
def count(state: State, i: int, j: int, x: int, sign: int) -> None:
    """Add a label on task i to the counts of worker j, or remove it, if they are kept here."""
    if not state.worker[j, WORKER_IS_HERE]:
        return
    right = sign * state.belief[i, BELIEF + x]
    worker = state.worker[j]
    worker[GIVEN] += sign
    worker[RIGHT] += right
    worker[SAID + x] += sign
    state.crowd[ALL_GIVEN] += sign
    state.crowd[ALL_RIGHT] += right
    count_on_gold(state, state.task[i, GOLD], j, x, sign)
    add_to_path(state, j, 1.0)


@kernel
def count_on_gold(state: State, gold: int, j: int, x: int, sign: int) -> None:
    """Add or remove a label of worker j on gold of this class; NONE is not gold."""
    if gold != NONE:
        state.worker_link[j, ON_GOLD] += sign
        if x == gold:
            state.worker_link[j, RIGHT_ON_GOLD] += sign


@kernel
def informs_prior(state: State, i: int) -> bool:
    """Whether the class prior is learned from task i: not if it has gold or its own prior."""
    task = state.task[i]
    return bool(
        state.whole[IS_SETTLED]
        and task[IS_HERE]
        and task[LABELS] > 0
        and task[GOLD] == NONE
        and task[PRIOR] == NONE
    )


@kernel
def add_to_prior(state: State, i: int, sign: int) -> None:
    """Add task i to the crowd's sums, or remove it."""
    state.crowd[ALL_TASKS] += sign
    for k in range(state.by_class.shape[1]):
        state.by_class[RHO, k] += sign * state.belief[i, BELIEF + k]


@kernel
def begin(state: State, i: int) -> None:
    """Reset task i, which has no labels, to its prior, or to certainty for gold."""
    classes = state.by_class.shape[1]
    belief = state.belief[i, BELIEF : BELIEF + classes]
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    row = state.task[i, PRIOR]
    for k in range(classes):
        if row != NONE:
            belief[k] = state.priors[row, k]
        elif state.whole[IS_SETTLED]:
            belief[k] = 1.0 / classes
        else:
            belief[k] = state.by_class[FIXED, k]
        score[k] = log(belief[k])
    if not state.whole[IS_SETTLED]:
        add_up(state, i)
    gold = state.task[i, GOLD]
    if gold != NONE:
        for k in range(classes):
            belief[k] = 1.0 if k == gold else 0.0


# What is set for a task apart from its labels: where it begins, gold, and its own prior.


@kernel
def begin_all(state: State, first: int, end: int) -> None:
    """Reset these new tasks to the prior."""
    for i in range(first, end):
        begin(state, i)


@kernel
def describe(state: State, i: int, gold: int, prior: int) -> None:
    """Set the gold class of task i and its row of `priors`; NONE for either."""
    if informs_prior(state, i):
        add_to_prior(state, i, -1)
    was_gold = state.task[i, GOLD] != NONE
    set_gold(state, i, gold)
    state.task[i, PRIOR] = prior
    if informs_prior(state, i):
        add_to_prior(state, i, 1)
    if state.task[i, IS_HERE] and (state.task[i, LABELS] == 0 or (was_gold and gold == NONE)):
        _begin_again(state, i)
    refresh(state, i)
    has_moved(state, i)


@kernel
def set_gold(state: State, i: int, gold: int) -> None:
    """Set the gold class of task i, or NONE, and update its own workers' counts on gold."""
    known = state.task[i, GOLD]
    if known == gold:
        return
    label = CHUNK * state.task[i, FIRST]
    for _ in range(state.task[i, LABELS]):
        j, x = worker_of(state, label), answer_of(state, label)
        if state.worker[j, WORKER_IS_HERE]:
            count_on_gold(state, known, j, x, -1)
            count_on_gold(state, gold, j, x, 1)
            worker_has_moved(state, j)  # even if the belief has not
        label = following(state, label)
    state.task[i, GOLD] = gold


@kernel
def _begin_again(state: State, i: int) -> None:
    """As `begin`, for a task that may have labels: updates the counts of their workers."""
    change = state.by_class[CHANGE]
    belief = state.belief[i, BELIEF : BELIEF + len(change)]
    for k in range(len(change)):
        change[k] = -belief[k]
    begin(state, i)
    for k in range(len(change)):
        start, belief[k] = belief[k], -change[k]
        change[k] += start
    move(state, i)
