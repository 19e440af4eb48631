"""Refreshing tasks until they are at rest, and recounting without rounding errors."""

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.beliefs import add_to_prior, count_on_gold, informs_prior, refresh
from pipeline.inference.engine.due import is_to_walk, make_next_due, next_due, next_worker_due
from pipeline.inference.engine.ledger import answer_of, task_of
from pipeline.inference.engine.settled import class_prior, crowd_accuracy
from pipeline.inference.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    BELIEF,
    FIRST_DUE,
    G_DUE,
    GIVEN,
    GOLD,
    IS_SETTLED,
    IS_WALKING,
    LABELS,
    NEWEST,
    NONE,
    OLDER,
    ON_GOLD,
    PI,
    PI_DUE,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    SWEEP,
    TASKS_KNOWN,
    TOLERANCE,
    WALK,
    WORKER_IS_HERE,
    State,
)


@kernel
def refresh_due(state: State, labels: int) -> bool:
    """Refresh due tasks until about so many labels are weighed; False when at rest.

    First the tasks of all workers who have moved become due, and then each is refreshed once,
    however many of its workers have moved: one worker after the other took three times as long.
    """
    weighed = 0
    while weighed < labels:
        if state.whole[IS_WALKING]:
            weighed += 1
            state.whole[IS_WALKING] = make_next_due(state)
            continue
        i = next_due(state)
        if i != NONE:
            refresh(state, i)
            weighed += state.task[i, LABELS]
        elif is_to_walk(state):
            state.whole[IS_WALKING] = 1
        elif _crowd_has_moved(state):
            _remember_crowd(state)
            state.whole[SWEEP] = 0
        else:
            return False
    return True


@kernel
def is_at_rest(state: State) -> bool:
    """Whether no task is due or about to become due."""
    is_due = state.whole[FIRST_DUE] != NONE
    return not (is_due or is_to_walk(state) or _crowd_has_moved(state))


@kernel
def _crowd_has_moved(state: State) -> bool:
    """Whether g or π has moved by more than the tolerance since all tasks last became due."""
    if not state.whole[IS_SETTLED]:
        return False
    class_prior(state)
    far = abs(crowd_accuracy(state) - state.crowd[G_DUE])
    for k in range(state.by_class.shape[1]):
        far = max(far, abs(state.by_class[PI, k] - state.by_class[PI_DUE, k]))
    return bool(far > state.crowd[TOLERANCE])


@kernel
def _remember_crowd(state: State) -> None:
    class_prior(state)
    state.crowd[G_DUE] = crowd_accuracy(state)
    for k in range(state.by_class.shape[1]):
        state.by_class[PI_DUE, k] = state.by_class[PI, k]


@kernel
def sweep(state: State) -> float:
    """Refresh every task once; return how far any probability moved."""
    farthest = 0.0
    for i in range(state.whole[TASKS_KNOWN]):
        if state.task[i, LABELS] > 0:
            farthest = max(farthest, refresh(state, i))
    return farthest


@kernel
def nothing_is_due(state: State) -> None:
    """Empty the queues after a sweep that moved nothing."""
    while next_due(state) != NONE:
        pass
    while next_worker_due(state) != NONE:
        pass
    state.whole[WALK] = state.whole[SWEEP] = NONE
    state.whole[IS_WALKING] = 0
    _remember_crowd(state)


@kernel
def recount(state: State) -> None:
    """Recompute the counts kept here from the labels, without accumulated rounding errors."""
    state.crowd[ALL_TASKS] = 0.0
    state.by_class[RHO, :] = 0.0
    for i in range(state.whole[TASKS_KNOWN]):
        if informs_prior(state, i):
            add_to_prior(state, i, 1)
    state.crowd[ALL_GIVEN] = state.crowd[ALL_RIGHT] = 0.0
    for j in range(len(state.worker)):
        if state.worker[j, WORKER_IS_HERE]:
            recount_worker(state, j)


@kernel
def recount_worker(state: State, j: int) -> None:
    """Recount the labels of worker j, and add them to those of all workers counted here."""
    worker = state.worker[j]
    worker[GIVEN] = worker[RIGHT] = 0.0
    worker[SAID:] = 0.0
    state.worker_link[j, ON_GOLD] = state.worker_link[j, RIGHT_ON_GOLD] = 0
    label = state.worker_link[j, NEWEST]
    while label != NONE:
        x = answer_of(state, label)
        worker[GIVEN] += 1.0
        worker[SAID + x] += 1.0
        worker[RIGHT] += state.belief[task_of(state, label), BELIEF + x]
        count_on_gold(state, state.task[task_of(state, label), GOLD], j, x, 1)
        label = state.label[label, OLDER]
    state.crowd[ALL_GIVEN] += worker[GIVEN]
    state.crowd[ALL_RIGHT] += worker[RIGHT]
