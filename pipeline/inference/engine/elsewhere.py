"""Partitions that come and go: what is computed here, and what is told by those who compute it.

An engine that shares the work holds the labels of its own workers, whatever their tasks, and those
on its own tasks, whoever gave them. Of tasks that are not its own it is told the belief, of workers
that are not its own the counts, and of the others' crowd the sums. What is given up or taken on
costs as many steps as it has labels.
"""

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.beliefs import (
    begin,
    follow_score,
    go,
    refresh,
    teach_prior,
    teaches_prior,
)
from pipeline.inference.engine.due import make_due
from pipeline.inference.engine.ledger import following, remove, task_of, who_said
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
from pipeline.inference.engine.steps import recount_worker, set_gold
from pipeline.inference.labels import Floats, Ints


@kernel
def leave_tasks(state: State, tasks: Ints) -> None:
    """Give up tasks: keep their beliefs, and of their labels those of workers who are here."""
    for i in tasks:
        if teaches_prior(state, i):
            teach_prior(state, i, -1)
        if state.task[i, IS_HERE]:
            state.whole[LABELS_HERE] -= state.task[i, LABELS]
        state.task[i, IS_HERE] = 0
        label = CHUNK * state.task[i, FIRST]
        for _ in range(state.task[i, LABELS]):
            if state.worker[who_said(state, label), WORKER_IS_HERE]:
                label = following(state, label)
            else:
                remove(state, i, label)  # and the one after it is here now


@kernel
def enter_tasks(state: State, tasks: Ints) -> None:
    """Take tasks on; the labels on them that are not known yet are still to be added."""
    for i in tasks:
        if state.task[i, IS_HERE]:
            continue
        state.task[i, IS_HERE] = 1
        state.whole[LABELS_HERE] += state.task[i, LABELS]
        if teaches_prior(state, i):
            teach_prior(state, i, 1)
        if state.task[i, LABELS] == 0:
            begin(state, i)
        elif state.whole[IS_SETTLED]:
            make_due(state, i)
        else:
            refresh(state, i)


@kernel
def leave_workers(state: State, workers: Ints) -> None:
    """Give up workers: keep their counts, and of their labels those on tasks that are here."""
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
def enter_workers(state: State, workers: Ints) -> None:
    """Take workers on; those of their labels that are not known yet are still to be added."""
    for j in workers:
        if not state.worker[j, WORKER_IS_HERE]:
            state.worker[j, WORKER_IS_HERE] = 1
            recount_worker(state, j)


@kernel
def hear_of_tasks(state: State, tasks: Ints, scores: Floats, golds: Ints) -> None:
    """Take the scores of tasks that are not here: a row for each, logarithms up to a constant."""
    classes = scores.shape[1]
    for t in range(len(tasks)):
        i = tasks[t]
        if not state.task[i, IS_HERE]:
            for k in range(classes):
                state.belief[i, BELIEF + classes + k] = scores[t, k]
            set_gold(state, i, golds[t])
            follow_score(state, i)


@kernel
def hear_of_workers(state: State, workers: Ints, counts: Floats) -> None:
    """Take the counts of workers who are not here: a row of n, a and F for each."""
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
        go(state, j, far)
