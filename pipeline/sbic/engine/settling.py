"""Coming to rest: refreshing tasks until nothing moves, alone and with other engines."""

from sbic.engine.compiled import kernel
from sbic.engine.due import is_to_walk, make_due, make_next_due, next_due, next_worker_due
from sbic.engine.formulas import class_prior, crowd_accuracy
from sbic.engine.labels import Floats, Ints
from sbic.engine.ledger import answer_of, following, remove, task_of, worker_of
from sbic.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    BELIEF,
    CHUNK,
    FIRST,
    FIRST_DUE,
    G_DUE,
    GIVEN,
    GOLD,
    IS_HERE,
    IS_SETTLED,
    IS_WALKING,
    LABELS,
    LABELS_HERE,
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
from sbic.engine.update import (
    add_to_path,
    add_to_prior,
    begin,
    count_on_gold,
    follow_score,
    informs_prior,
    refresh,
    set_gold,
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


# Acquiring and releasing tasks and workers, and estimates received from other engines.
#
# Each engine that shares the work holds all labels of its own workers and all labels on its own
# tasks. It receives the beliefs of the other tasks, the counts of the other workers, and the other
# engines' parts in the sums over the crowd. To acquire or release a task or worker takes time
# proportional to its labels.


@kernel
def release_tasks(state: State, tasks: Ints) -> None:
    """Release tasks: keep their beliefs, and those of their labels that own workers gave."""
    for i in tasks:
        if informs_prior(state, i):
            add_to_prior(state, i, -1)
        if state.task[i, IS_HERE]:
            state.whole[LABELS_HERE] -= state.task[i, LABELS]
        state.task[i, IS_HERE] = 0
        label = CHUNK * state.task[i, FIRST]
        for _ in range(state.task[i, LABELS]):
            if state.worker[worker_of(state, label), WORKER_IS_HERE]:
                label = following(state, label)
            else:
                remove(state, i, label)  # the next label moves to this position


@kernel
def acquire_tasks(state: State, tasks: Ints) -> None:
    """Acquire tasks; labels on them that are not known yet have to be put."""
    for i in tasks:
        if state.task[i, IS_HERE]:
            continue
        state.task[i, IS_HERE] = 1
        state.whole[LABELS_HERE] += state.task[i, LABELS]
        if informs_prior(state, i):
            add_to_prior(state, i, 1)
        if state.task[i, LABELS] == 0:
            begin(state, i)
        elif state.whole[IS_SETTLED]:
            make_due(state, i)
        else:
            refresh(state, i)


@kernel
def release_workers(state: State, workers: Ints) -> None:
    """Release workers: keep their counts, and those of their labels that are on own tasks."""
    for j in workers:
        if not state.worker[j, WORKER_IS_HERE]:
            continue
        label = state.worker_link[j, NEWEST]
        while label != NONE:
            older = state.label[label, OLDER]
            i = task_of(state, label)
            if not state.task[i, IS_HERE]:
                remove(state, i, label)
            label = older
        state.worker[j, WORKER_IS_HERE] = 0
        state.crowd[ALL_GIVEN] -= state.worker[j, GIVEN]
        state.crowd[ALL_RIGHT] -= state.worker[j, RIGHT]


@kernel
def acquire_workers(state: State, workers: Ints) -> None:
    """Acquire workers; labels of theirs that are not known yet have to be put."""
    for j in workers:
        if not state.worker[j, WORKER_IS_HERE]:
            state.worker[j, WORKER_IS_HERE] = 1
            recount_worker(state, j)


@kernel
def receive_tasks(state: State, tasks: Ints, scores: Floats, golds: Ints) -> None:
    """Set the scores of tasks of other engines: a row for each, logarithms up to a constant."""
    classes = scores.shape[1]
    for t in range(len(tasks)):
        i = tasks[t]
        if not state.task[i, IS_HERE]:
            for k in range(classes):
                state.belief[i, BELIEF + classes + k] = scores[t, k]
            set_gold(state, i, golds[t])
            follow_score(state, i)


@kernel
def receive_workers(state: State, workers: Ints, counts: Floats) -> None:
    """Set the counts of workers of other engines: a row of n, a and F for each."""
    for t in range(len(workers)):
        j = workers[t]
        if state.worker[j, WORKER_IS_HERE]:
            continue
        worker = state.worker[j]
        far = abs(counts[t, 0] - worker[GIVEN]) + abs(counts[t, 1] - worker[RIGHT])
        worker[GIVEN] = counts[t, 0]
        worker[RIGHT] = counts[t, 1]
        for k in range(counts.shape[1] - 2):
            worker[SAID + k] = counts[t, 2 + k]
        add_to_path(state, j, far)
