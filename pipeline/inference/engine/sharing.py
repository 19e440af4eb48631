"""Acquiring and releasing tasks and workers, and estimates received from other engines.

Each engine that shares the work holds all labels of its own workers and all labels on its own
tasks. It receives the beliefs of the other tasks, the counts of the other workers, and the other
engines' parts in the sums over the crowd. To acquire or release a task or worker takes time
proportional to its labels.
"""

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.beliefs import (
    add_to_path,
    add_to_prior,
    begin,
    follow_score,
    informs_prior,
    refresh,
)
from pipeline.inference.engine.describing import set_gold
from pipeline.inference.engine.due import make_due
from pipeline.inference.engine.ledger import following, remove, task_of, worker_of
from pipeline.inference.engine.settling import recount_worker
from pipeline.inference.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    BELIEF,
    CHUNK,
    FIRST,
    GIVEN,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    LABELS_HERE,
    NEWEST,
    NONE,
    OLDER,
    RIGHT,
    SAID,
    WORKER_IS_HERE,
    State,
)
from pipeline.inference.labels import Floats, Ints


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
