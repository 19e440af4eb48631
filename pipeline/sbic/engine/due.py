"""Which tasks are due for a refresh, and which have moved: linked lists within the rows.

When a worker's counts have moved by more than the tolerance, the worker's tasks become due, a few
at a time, so that a worker with a million labels blocks nothing. When the sums over the crowd have
moved, all tasks become due.
"""

import numpy as np

from sbic.engine.compiled import kernel
from sbic.engine.labels import Ints
from sbic.engine.ledger import task_of
from sbic.engine.state import (
    DUE,
    FIRST_DUE,
    FIRST_MOVED,
    FIRST_WORKER_DUE,
    FIRST_WORKER_MOVED,
    IS_HERE,
    LABELS,
    LAST_DUE,
    LAST_WORKER_DUE,
    MOVED,
    NEWEST,
    NONE,
    NOT_IN,
    OLDER,
    PATH,
    SWEEP,
    TASK_PATH,
    TASKS_DUE,
    TASKS_KNOWN,
    TASKS_MOVED,
    WALK,
    WORKER_DUE,
    WORKER_IS_HERE,
    WORKER_MOVED,
    State,
)


@kernel
def make_due(state: State, i: int) -> None:
    """Append a task to the queue, unless it is queued already or not computed here."""
    if state.task[i, DUE] != NOT_IN or not state.task[i, IS_HERE] or not state.task[i, LABELS]:
        return
    last = state.whole[LAST_DUE]
    if last == NONE:
        state.whole[FIRST_DUE] = i
    else:
        state.task[last, DUE] = i
    state.whole[LAST_DUE] = i
    state.task[i, DUE] = NONE
    state.whole[TASKS_DUE] += 1


@kernel
def next_due(state: State) -> int:
    """Remove and return the first task of the queue; NONE if it is empty."""
    i = state.whole[FIRST_DUE]
    if i != NONE:
        state.whole[FIRST_DUE] = state.task[i, DUE]
        state.task[i, DUE] = NOT_IN
        state.whole[TASKS_DUE] -= 1
        if state.whole[FIRST_DUE] == NONE:
            state.whole[LAST_DUE] = NONE
    return int(i)


@kernel
def make_worker_due(state: State, j: int) -> None:
    """Append a worker to the queue of workers whose tasks become due."""
    if state.worker_link[j, WORKER_DUE] != NOT_IN:
        return
    last = state.whole[LAST_WORKER_DUE]
    if last == NONE:
        state.whole[FIRST_WORKER_DUE] = j
    else:
        state.worker_link[last, WORKER_DUE] = j
    state.whole[LAST_WORKER_DUE] = j
    state.worker_link[j, WORKER_DUE] = NONE
    # never beyond the tolerance while queued
    state.worker[j, PATH] = -np.inf
    worker_has_moved(state, j)


@kernel
def next_worker_due(state: State) -> int:
    """Remove and return the first worker of that queue; NONE if it is empty."""
    j = state.whole[FIRST_WORKER_DUE]
    if j != NONE:
        state.whole[FIRST_WORKER_DUE] = state.worker_link[j, WORKER_DUE]
        state.worker_link[j, WORKER_DUE] = NOT_IN
        state.worker[j, PATH] = 0.0
        worker_has_moved(state, j)  # movement while queued was not recorded
        if state.whole[FIRST_WORKER_DUE] == NONE:
            state.whole[LAST_WORKER_DUE] = NONE
    return int(j)


@kernel
def is_to_walk(state: State) -> bool:
    """Whether a worker or a sweep is pending, so that tasks are about to become due."""
    whole = state.whole
    return bool(whole[WALK] != NONE or whole[FIRST_WORKER_DUE] != NONE or whole[SWEEP] != NONE)


@kernel
def make_next_due(state: State) -> bool:
    """Make at most one task due; False if no worker and no sweep is pending."""
    label = state.whole[WALK]
    if label != NONE:
        make_due(state, task_of(state, label))
        state.whole[WALK] = state.label[label, OLDER]
        return True
    j = next_worker_due(state)
    if j != NONE:
        state.whole[WALK] = state.worker_link[j, NEWEST]
        return True
    i = state.whole[SWEEP]
    if i == NONE:
        return False
    if i < state.whole[TASKS_KNOWN]:
        make_due(state, i)
        state.whole[SWEEP] = i + 1
    else:
        state.whole[SWEEP] = NONE
    return True


@kernel
def has_moved(state: State, i: int) -> None:
    """Add a task to the list of those that moved, unless it is listed or not computed here."""
    if state.task[i, MOVED] == NOT_IN and state.task[i, IS_HERE]:
        state.task[i, MOVED] = state.whole[FIRST_MOVED]
        state.whole[FIRST_MOVED] = i
        state.whole[TASKS_MOVED] += 1


@kernel
def next_moved(state: State) -> int:
    """Remove and return a task that moved; NONE if there is none."""
    i = state.whole[FIRST_MOVED]
    if i != NONE:
        state.whole[FIRST_MOVED] = state.task[i, MOVED]
        state.task[i, MOVED] = NOT_IN
        state.whole[TASKS_MOVED] -= 1
        state.belief[i, TASK_PATH] = 0.0
    return int(i)


@kernel
def worker_has_moved(state: State, j: int) -> None:
    """Add a worker whose counts are kept here to the list of those that moved."""
    if state.worker_link[j, WORKER_MOVED] == NOT_IN and state.worker[j, WORKER_IS_HERE]:
        state.worker_link[j, WORKER_MOVED] = state.whole[FIRST_WORKER_MOVED]
        state.whole[FIRST_WORKER_MOVED] = j


@kernel
def next_worker_moved(state: State) -> int:
    """Remove and return a worker that moved; NONE if there is none."""
    j = state.whole[FIRST_WORKER_MOVED]
    if j != NONE:
        state.whole[FIRST_WORKER_MOVED] = state.worker_link[j, WORKER_MOVED]
        state.worker_link[j, WORKER_MOVED] = NOT_IN
    return int(j)


@kernel
def drain_moved(state: State, moved: Ints) -> int:
    """Move the tasks that moved from the list to `moved`, as many as fit; return their number."""
    for place in range(len(moved)):
        i = next_moved(state)
        if i == NONE:
            return place
        moved[place] = i
    return len(moved)


@kernel
def drain_moved_workers(state: State, moved: Ints) -> int:
    """Move the workers that moved from the list to `moved`; return their number."""
    for place in range(len(moved)):
        j = next_worker_moved(state)
        if j == NONE:
            return place
        moved[place] = j
    return len(moved)
