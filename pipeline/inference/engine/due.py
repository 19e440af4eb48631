"""Which tasks are to be refreshed, and which have moved: queues linked through the rows themselves.

A worker whose counts have gone further than the tolerance makes their tasks due. That is done a
few labels at a time, so that one with a million of them holds up nobody. When the crowd as a
whole has moved, all tasks are due.
"""

import numpy as np

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.ledger import task_of
from pipeline.inference.engine.state import (
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
    """Put a task at the end of the queue, unless it is in it or is not computed here."""
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
    """Take the first task out of the queue; NONE if there is none."""
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
    """Put a worker at the end of the queue of those whose tasks are to be made due."""
    if state.worker_link[j, WORKER_DUE] != NOT_IN:
        return
    last = state.whole[LAST_WORKER_DUE]
    if last == NONE:
        state.whole[FIRST_WORKER_DUE] = j
    else:
        state.worker_link[last, WORKER_DUE] = j
    state.whole[LAST_WORKER_DUE] = j
    state.worker_link[j, WORKER_DUE] = NONE
    # never far enough: it is not asked for again while in the queue
    state.worker[j, PATH] = -np.inf
    worker_has_moved(state, j)


@kernel
def next_worker_due(state: State) -> int:
    """Take the first worker out of that queue; NONE if there is none."""
    j = state.whole[FIRST_WORKER_DUE]
    if j != NONE:
        state.whole[FIRST_WORKER_DUE] = state.worker_link[j, WORKER_DUE]
        state.worker_link[j, WORKER_DUE] = NOT_IN
        state.worker[j, PATH] = 0.0
        worker_has_moved(state, j)  # since it was put in, too: that was not looked at
        if state.whole[FIRST_WORKER_DUE] == NONE:
            state.whole[LAST_WORKER_DUE] = NONE
    return int(j)


@kernel
def spread(state: State) -> bool:
    """One small step of making tasks due; False where nothing is left to do."""
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
    """Put a task in the list of those that moved, unless it is in it."""
    if state.task[i, MOVED] == NOT_IN:
        state.task[i, MOVED] = state.whole[FIRST_MOVED]
        state.whole[FIRST_MOVED] = i
        state.whole[TASKS_MOVED] += 1


@kernel
def next_moved(state: State) -> int:
    """Take a task out of the list; NONE if there is none."""
    i = state.whole[FIRST_MOVED]
    if i != NONE:
        state.whole[FIRST_MOVED] = state.task[i, MOVED]
        state.task[i, MOVED] = NOT_IN
        state.whole[TASKS_MOVED] -= 1
        state.belief[i, TASK_PATH] = 0.0
    return int(i)


@kernel
def worker_has_moved(state: State, j: int) -> None:
    """Put a worker whose counts are kept here in the list of those that moved."""
    if state.worker_link[j, WORKER_MOVED] == NOT_IN and state.worker[j, WORKER_IS_HERE]:
        state.worker_link[j, WORKER_MOVED] = state.whole[FIRST_WORKER_MOVED]
        state.whole[FIRST_WORKER_MOVED] = j


@kernel
def next_worker_moved(state: State) -> int:
    """Take a worker out of the list; NONE if there is none."""
    j = state.whole[FIRST_WORKER_MOVED]
    if j != NONE:
        state.whole[FIRST_WORKER_MOVED] = state.worker_link[j, WORKER_MOVED]
        state.worker_link[j, WORKER_MOVED] = NOT_IN
    return int(j)
