"""Which tasks are due for a refresh, and which have moved: linked lists within the rows.

When a worker's counts have moved by more than the tolerance, the worker's tasks become due, a few
at a time, so that a worker with a million labels blocks nothing. When the sums over the crowd have
moved, all tasks become due.

A task has moved when its belief, on which the counts of workers depend, or the probabilities that
are published of it have moved by more than the tolerance since they were last told. Each may move
without the other: under settled what is published is discounted and calibrated, see `outside`.
"""

from math import exp

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import inlined, kernel
from sbic.engine.labels import Floats, Ints
from sbic.engine.state import (
    BELIEF,
    BIAS,
    CHANGE,
    DEPENDENCE,
    DUE,
    FIRST_DUE,
    FIRST_MOVED,
    FIRST_WORKER_DUE,
    FIRST_WORKER_MOVED,
    GOLD,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    MOVED,
    NONE,
    NOT_IN,
    PATH,
    SCALE,
    SWEEP,
    TASK_PATH,
    TASKS_DUE,
    TASKS_MOVED,
    TOLERANCE,
    VOTES,
    WALK,
    WORKER_DUE,
    WORKER_IS_HERE,
    WORKER_MOVED,
    WORKER_SWEEP,
    State,
)

Links = NDArray[np.int32]


@kernel
def _append(links: Links, column: int, whole: Ints, first: int, row: int) -> None:
    """Append a row to a list whose last row stands beside its first one in `whole`."""
    if whole[first] == NONE:
        whole[first] = row
    else:
        links[whole[first + 1], column] = row
    whole[first + 1] = row
    links[row, column] = NONE


@kernel
def _prepend(links: Links, column: int, whole: Ints, first: int, row: int) -> None:
    links[row, column] = whole[first]
    whole[first] = row


@kernel
def _take_first(links: Links, column: int, whole: Ints, first: int) -> int:
    """Remove and return the first row of a list; NONE if it is empty."""
    row = whole[first]
    if row != NONE:
        whole[first] = links[row, column]
        links[row, column] = NOT_IN
    return int(row)


@kernel
def _take_some(links: Links, column: int, whole: Ints, first: int, rows: Ints) -> int:
    """Move rows of a list to `rows`, as many as fit; return their number."""
    for place in range(len(rows)):
        row = _take_first(links, column, whole, first)
        if row == NONE:
            return place
        rows[place] = row
    return len(rows)


@kernel
def make_due(state: State, i: int) -> None:
    """Append a task to the queue, unless it is queued already or not computed here."""
    if state.task[i, DUE] == NOT_IN and state.task[i, IS_HERE] and state.task[i, LABELS]:
        _append(state.task, DUE, state.whole, FIRST_DUE, i)
        state.whole[TASKS_DUE] += 1


@kernel
def next_due(state: State) -> int:
    """Remove and return the first task of the queue; NONE if it is empty."""
    i = _take_first(state.task, DUE, state.whole, FIRST_DUE)
    state.whole[TASKS_DUE] -= i != NONE
    return i


@kernel
def make_worker_due(state: State, j: int) -> None:
    """Append a worker to the queue of workers whose tasks become due."""
    if state.worker_link[j, WORKER_DUE] == NOT_IN:
        _append(state.worker_link, WORKER_DUE, state.whole, FIRST_WORKER_DUE, j)
        state.worker[j, PATH] = -np.inf  # never beyond the tolerance while queued
        worker_has_moved(state, j)


@kernel
def make_workers_due(state: State, workers: Ints) -> None:
    """As `make_worker_due`, for several."""
    for j in workers:
        make_worker_due(state, j)


@kernel
def next_worker_due(state: State) -> int:
    """Remove and return the first worker of that queue; NONE if it is empty."""
    j = _take_first(state.worker_link, WORKER_DUE, state.whole, FIRST_WORKER_DUE)
    if j != NONE:
        state.worker[j, PATH] = 0.0
        worker_has_moved(state, j)  # movement while queued was not recorded
    return j


@kernel
def is_to_walk(state: State) -> bool:
    """Whether a worker or a sweep is pending, so that tasks are about to become due."""
    whole = state.whole
    return bool(
        whole[WALK] != NONE
        or whole[FIRST_WORKER_DUE] != NONE
        or whole[WORKER_SWEEP] != NONE
        or whole[SWEEP] != NONE
    )


@kernel
def has_moved(state: State, i: int) -> None:
    """Add a task to the list of those that moved, unless it is listed or not computed here."""
    if state.task[i, MOVED] == NOT_IN and state.task[i, IS_HERE]:
        _prepend(state.task, MOVED, state.whole, FIRST_MOVED, i)
        state.whole[TASKS_MOVED] += 1


@kernel
def worker_has_moved(state: State, j: int) -> None:
    """Add a worker whose counts are kept here to the list of those that moved."""
    if state.worker_link[j, WORKER_MOVED] == NOT_IN and state.worker[j, WORKER_IS_HERE]:
        _prepend(state.worker_link, WORKER_MOVED, state.whole, FIRST_WORKER_MOVED, j)


@kernel
def workers_have_moved(state: State, workers: Ints) -> None:
    """As `worker_has_moved`, for several."""
    for j in workers:
        worker_has_moved(state, j)


@inlined
def publish(state: State, i: int, p: Floats) -> None:
    """Write the probabilities of task i without gold that are published under settled."""
    classes, crowd, belief = len(p), state.crowd, state.belief[i]
    less = crowd[SCALE] / (1 + max(belief[VOTES] - 1, 0.0) * crowd[DEPENDENCE])
    most, total = -np.inf, 0.0
    for k in range(classes):
        p[k] = less * belief[BELIEF + classes + k] + state.by_class[BIAS, k]
        most = max(most, p[k])
    for k in range(classes):
        p[k] = exp(p[k] - most)
        total += p[k]
    for k in range(classes):
        p[k] /= total


@kernel
def compare_told(state: State, i: int) -> None:
    """Let task i move if what is published of it is not what was told."""
    task = state.task[i]
    if task[MOVED] != NOT_IN or not task[IS_HERE] or not task[LABELS] or task[GOLD] != NONE:
        return
    p, classes, far = state.by_class[CHANGE], state.by_class.shape[1], 0.0
    publish(state, i, p)
    for k in range(classes):
        far = max(far, abs(p[k] - state.belief[i, BELIEF + 2 * classes + k]))
    if far > state.crowd[TOLERANCE]:
        has_moved(state, i)


@kernel
def tell(state: State, tasks: Ints) -> None:
    """Note what is published of tasks now: they move when it becomes another."""
    classes = state.by_class.shape[1]
    for i in tasks:
        state.belief[i, TASK_PATH] = 0.0
        if state.whole[IS_SETTLED]:
            publish(state, i, state.belief[i, BELIEF + 2 * classes : BELIEF + 3 * classes])


@kernel
def drain_moved(state: State, moved: Ints) -> int:
    """Move the tasks that moved from the list to `moved`, as many as fit; return their number."""
    found = _take_some(state.task, MOVED, state.whole, FIRST_MOVED, moved)
    state.whole[TASKS_MOVED] -= found
    tell(state, moved[:found])
    return int(found)


@kernel
def drain_moved_workers(state: State, moved: Ints) -> int:
    """Move the workers that moved from the list to `moved`; return their number."""
    return int(_take_some(state.worker_link, WORKER_MOVED, state.whole, FIRST_WORKER_MOVED, moved))
