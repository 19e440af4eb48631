"""Coming to rest: refreshing tasks until nothing moves, alone and with other engines."""

from sbic.engine.compiled import kernel
from sbic.engine.due import is_to_walk, make_due, make_worker_due, next_due, next_worker_due
from sbic.engine.formulas import look
from sbic.engine.labels import Floats, Ints
from sbic.engine.ledger import answer_of, following, remove, task_of, worker_of
from sbic.engine.state import (
    ABOUT,
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    BELIEF,
    CHANGED,
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
    M_DUE,
    NEWEST,
    NONE,
    OLDER,
    ON_GOLD,
    PI,
    PI_DUE,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    S_DUE,
    SAID,
    SUM_D,
    SUM_E,
    SUM_V,
    SUM_VV,
    SUM_WW,
    SUM_Y,
    SUM_YV,
    SUM_YY,
    SWEEP,
    TASKS_KNOWN,
    TOLERANCE,
    VOTES,
    WALK,
    WEIGHT,
    WORKER_IS_HERE,
    WORKER_SWEEP,
    D,
    E,
    G,
    M,
    S,
    State,
    V,
    Y,
)
from sbic.engine.update import (
    add_to_path,
    add_to_prior,
    begin,
    compare,
    count_on_gold,
    count_rows,
    follow_score,
    informs_prior,
    refresh,
    retell,
    set_gold,
    tell_one,
)


@kernel
def refresh_due(state: State, labels: int) -> bool:
    """Refresh due tasks until about this many labels are weighed; False when at rest.

    First the tasks of all workers who have moved become due, and then each is refreshed once,
    however many of its workers have moved: one worker after the other took three times as long.
    """
    weighed = 0
    while weighed < labels:
        if state.whole[IS_WALKING]:
            weighed += 1
            state.whole[IS_WALKING] = _walk(state)
            continue
        i = next_due(state)
        if i != NONE:
            refresh(state, i)
            weighed += state.task[i, LABELS]
        elif is_to_walk(state):
            state.whole[IS_WALKING] = 1
        elif _crowd_has_moved(state):
            _remember_crowd(state)
            state.whole[WORKER_SWEEP] = 0
        else:
            return False
    return True


@kernel
def _walk(state: State) -> bool:
    """Take one step towards the next due task; False if no worker and no sweep is pending."""
    whole, label = state.whole, state.whole[WALK]
    if label != NONE:
        i, j = task_of(state, label), worker_of(state, label)
        if state.task[i, IS_HERE]:
            make_due(state, i)
        elif state.worker[j, WORKER_IS_HERE]:
            tell_one(state, label)
        whole[WALK] = state.label[label, OLDER]
        return True
    j = next_worker_due(state)
    if j != NONE:
        if state.worker[j, WORKER_IS_HERE]:
            compare(state, j)
        whole[WALK] = state.worker_link[j, NEWEST]
        return True
    j, i = whole[WORKER_SWEEP], whole[SWEEP]
    if j != NONE:
        if j == len(state.worker):
            whole[WORKER_SWEEP], whole[SWEEP] = NONE, 0
        else:
            whole[WORKER_SWEEP] = j + 1
            if state.worker[j, WORKER_IS_HERE]:
                compare(state, j)
        return True
    if i != NONE:
        if i == whole[TASKS_KNOWN]:
            whole[SWEEP] = NONE
        else:
            make_due(state, i)
            whole[SWEEP] = i + 1
    return bool(i != NONE)


@kernel
def is_at_rest(state: State) -> bool:
    """Whether no task is due or about to become due."""
    is_due = state.whole[FIRST_DUE] != NONE
    return not (is_due or is_to_walk(state) or _crowd_has_moved(state))


@kernel
def _crowd_has_moved(state: State) -> bool:
    """Whether π, g, m or S has moved by more than the tolerance since all tasks were due."""
    if not state.whole[IS_SETTLED]:
        return False
    look(state)
    crowd = state.crowd
    far = abs(crowd[G] - crowd[G_DUE])
    far = max(far, abs(crowd[M] - crowd[M_DUE]) / crowd[M])
    far = max(far, abs(crowd[S] - crowd[S_DUE]) / crowd[S])
    for k in range(state.by_class.shape[1]):
        far = max(far, abs(state.by_class[PI, k] - state.by_class[PI_DUE, k]))
    return bool(far > crowd[TOLERANCE])


@kernel
def _remember_crowd(state: State) -> None:
    look(state)
    state.crowd[G_DUE] = state.crowd[G]
    state.crowd[M_DUE] = state.crowd[M]
    state.crowd[S_DUE] = state.crowd[S]
    for k in range(state.by_class.shape[1]):
        state.by_class[PI_DUE, k] = state.by_class[PI, k]


@kernel
def sweep(state: State) -> float:
    """Refresh every task and compare every worker once; return how far anything moved."""
    look(state)
    before, farthest = state.crowd[S], 0.0
    for i in range(state.whole[TASKS_KNOWN]):
        if state.task[i, LABELS] > 0:
            farthest = max(farthest, refresh(state, i))
    for j in range(len(state.worker)):
        if state.worker[j, WORKER_IS_HERE] and state.worker[j, GIVEN] > 0:
            compare(state, j)
    look(state)
    return float(max(farthest, abs(state.crowd[S] / before - 1)))


@kernel
def nothing_is_due(state: State) -> None:
    """Empty the queues after a sweep that moved nothing."""
    while next_due(state) != NONE:
        pass
    while next_worker_due(state) != NONE:
        pass
    state.whole[WALK] = state.whole[SWEEP] = state.whole[WORKER_SWEEP] = NONE
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
    for number in range(SUM_Y, SUM_E + 1):
        state.crowd[number] = 0.0
    for j in range(len(state.worker)):
        if state.worker[j, WORKER_IS_HERE]:
            recount_worker(state, j)


@kernel
def recount_worker(state: State, j: int) -> None:
    """Recount the labels of worker j, and add them to those of all workers counted here."""
    worker, classes, is_settled = state.worker[j], state.by_class.shape[1], state.whole[IS_SETTLED]
    worker[GIVEN] = worker[RIGHT] = 0.0
    worker[SAID:] = 0.0
    state.worker_link[j, ON_GOLD] = state.worker_link[j, RIGHT_ON_GOLD] = 0
    last = SAID + classes * (classes + 3)
    if is_settled:
        state.apart[j, D] = state.apart[j, E] = 0.0
    label = state.worker_link[j, NEWEST]
    while label != NONE:
        i, x = task_of(state, label), answer_of(state, label)
        worker[GIVEN] += 1.0
        worker[SAID + x] += 1.0
        worker[RIGHT] += state.belief[i, BELIEF + x]
        if is_settled:
            count_rows(state, i, j, x, 1)
            worker[last + Y] += state.told[label, ABOUT]
            worker[last + V] += state.told[label, WEIGHT]
            state.crowd[SUM_WW] += state.told[label, WEIGHT] ** 2
        count_on_gold(state, state.task[i, GOLD], j, x, 1)
        label = state.label[label, OLDER]
    add_worker(state, j, 1)
    if is_settled:
        compare(state, j)


@kernel
def add_worker(state: State, j: int, sign: int) -> None:
    """Add the counts of worker j to those of all workers counted here, or remove them."""
    worker, crowd, classes = state.worker[j], state.crowd, state.by_class.shape[1]
    crowd[ALL_GIVEN] += sign * worker[GIVEN]
    crowd[ALL_RIGHT] += sign * worker[RIGHT]
    if state.whole[IS_SETTLED]:
        last = SAID + classes * (classes + 3)
        y, v = worker[last + Y], worker[last + V]
        crowd[SUM_Y] += sign * y
        crowd[SUM_V] += sign * v
        crowd[SUM_YY] += sign * y * y
        crowd[SUM_YV] += sign * y * v
        crowd[SUM_VV] += sign * v * v
        crowd[SUM_D] += sign * state.apart[j, D]
        crowd[SUM_E] += sign * state.apart[j, E]


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
            state.whole[CHANGED] += state.task[i, LABELS]
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
        state.whole[CHANGED] += state.task[i, LABELS]
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
            if state.whole[IS_SETTLED]:
                retell(state, label, 0.0, 0.0)
            if not state.task[i, IS_HERE]:
                remove(state, i, label)
            label = older
        state.worker[j, WORKER_IS_HERE] = 0
        add_worker(state, j, -1)


@kernel
def acquire_workers(state: State, workers: Ints) -> None:
    """Acquire workers; labels of theirs that are not known yet have to be put."""
    for j in workers:
        if not state.worker[j, WORKER_IS_HERE]:
            state.worker[j, WORKER_IS_HERE] = 1
            recount_worker(state, j)
            if state.whole[IS_SETTLED] and state.worker[j, GIVEN] > 0:
                make_worker_due(state, j)  # its labels tell nothing yet


@kernel
def receive_tasks(state: State, tasks: Ints, votes: Floats, scores: Floats, golds: Ints) -> None:
    """Set the scores of tasks of other engines: a row for each, logarithms up to a constant."""
    classes = scores.shape[1]
    for t in range(len(tasks)):
        i = tasks[t]
        if not state.task[i, IS_HERE]:
            state.belief[i, VOTES] = votes[t]
            for k in range(classes):
                state.belief[i, BELIEF + classes + k] = scores[t, k]
            set_gold(state, i, golds[t])
            follow_score(state, i)
            if state.whole[IS_SETTLED]:
                _tell_own(state, i)


@kernel
def _tell_own(state: State, i: int) -> None:
    """Let the belief of another engine's task tell of the own workers who answered it."""
    label = CHUNK * state.task[i, FIRST]
    for _ in range(state.task[i, LABELS]):
        if state.worker[worker_of(state, label), WORKER_IS_HERE]:
            tell_one(state, label)
        label = following(state, label)


@kernel
def receive_workers(state: State, workers: Ints, counts: Floats) -> None:
    """Set the counts of workers of other engines: a row of C for each, from which all follow."""
    classes = state.by_class.shape[1]
    for t in range(len(workers)):
        j = workers[t]
        if state.worker[j, WORKER_IS_HERE]:
            continue
        worker, far, given, right = state.worker[j], 0.0, 0.0, 0.0
        rows = SAID + classes
        totals = rows + classes * classes
        for k in range(classes):
            worker[totals + k] = 0.0
        for x in range(classes):
            said = 0.0
            for k in range(classes):
                value = counts[t, x * classes + k]
                far += abs(value - worker[rows + x * classes + k])
                worker[rows + x * classes + k] = value
                worker[totals + k] += value
                said += value
            right += counts[t, x * classes + x]
            worker[SAID + x] = round(said)  # a whole number but for rounding errors
            given += worker[SAID + x]
        worker[GIVEN] = given
        worker[RIGHT] = right
        add_to_path(state, j, far)
