"""What can happen to the state, each as one compiled step over a batch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.beliefs import (
    begin,
    count,
    count_on_gold,
    follow_score,
    move,
    refresh,
    teach_prior,
    teaches_prior,
)
from pipeline.inference.engine.due import (
    has_moved,
    next_due,
    next_moved,
    next_worker_due,
    next_worker_moved,
    spread,
    worker_has_moved,
)
from pipeline.inference.engine.fast_sbic import SCORE, add_up, vote_of
from pipeline.inference.engine.ledger import (
    append,
    find,
    following,
    remove,
    task_of,
    what_was_said,
    who_said,
)
from pipeline.inference.engine.settled import class_prior, worth_of_stranger
from pipeline.inference.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    BELIEF,
    CHANGE,
    CHUNK,
    FIRST,
    G_DUE,
    GIVEN,
    GOLD,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    LAST,
    NEWER,
    NEWEST,
    NEXT,
    NONE,
    OLDER,
    ON_GOLD,
    PI,
    PI_DUE,
    PRIOR,
    READ,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    SWEEP,
    TASK_PATH,
    TASKS_KNOWN,
    TOLERANCE,
    WALK,
    WHO,
    WORKER_IS_HERE,
    Ints32,
    State,
)
from pipeline.inference.labels import Floats, Ints

# What became of a label.
ADDED, REPLACED, REPEATED, RETRACTED, ABSENT = range(5)

AHEAD = 16  # labels: as many as fit into the first cache with all that they need

RETRACT = -1
"""In place of an answer: the label is taken back."""


@kernel
def take(
    state: State,
    tasks: Ints,
    workers: Ints,
    answers: Ints,
    replaces: bool,
    outcomes: NDArray[np.int8],
    votes: Floats,
) -> None:
    """Take labels one after the other; what became of each, and its vote under Fast SBIC."""
    for t in range(len(tasks)):
        if t % AHEAD == 0:
            _look_ahead(state, tasks[t : t + AHEAD], workers[t : t + AHEAD])
        outcomes[t], votes[t] = _take(state, tasks[t], workers[t], answers[t], replaces, votes[t])


@kernel
def take_one(state: State, i: int, j: int, x: int) -> tuple[int, float]:
    """Take one label, of a worker who is here; what became of it, and what it added."""
    return _take(state, i, j, x, False, 0.0)


@kernel
def observe(i: int, j: int, x: int, *state: Any) -> float:
    """Take one label of two classes, and return its task's log-odds.

    The arrays of the state come one by one: to unpack a tuple of them takes longer than the rest.
    """
    arrays = State(*state)
    _take(arrays, i, j, x, False, 0.0)
    return float(arrays.belief[i, SCORE + 1] - arrays.belief[i, SCORE])


@kernel
def _take(state: State, i: int, j: int, x: int, replaces: bool, vote: float) -> tuple[int, float]:
    known = find(state, i, j)
    if known == NONE:
        if x == RETRACT:
            return ABSENT, 0.0
        return ADDED, _add(state, i, j, x, _vote_now(state, j, x, vote))
    if x == RETRACT:
        vote = _retract(state, i, known)
        refresh(state, i)
        has_moved(state, i)
        return RETRACTED, vote
    if replaces and x != what_was_said(state, known):
        _retract(state, i, known)
        return REPLACED, _add(state, i, j, x, _vote_now(state, j, x, vote))
    return REPEATED, 0.0


@kernel
def put(state: State, tasks: Ints, workers: Ints, answers: Ints, votes: Floats) -> None:
    """Let these labels stand as they were taken elsewhere or before; what stands so already stays.

    The vote of Fast SBIC is as given.
    """
    for t in range(len(tasks)):
        if t % AHEAD == 0:
            _look_ahead(state, tasks[t : t + AHEAD], workers[t : t + AHEAD])
        i, j, x, vote = tasks[t], workers[t], answers[t], votes[t]
        known = find(state, i, j)
        if known != NONE:
            if x == what_was_said(state, known) and (
                state.whole[IS_SETTLED] or state.vote[known] == vote
            ):
                continue
            _retract(state, i, known)
            if x == RETRACT:
                refresh(state, i)
                has_moved(state, i)
        if x != RETRACT:
            _add(state, i, j, x, vote)


@kernel
def _look_ahead(state: State, tasks: Ints, workers: Ints) -> None:
    """Read what the next labels will need, so that memory answers to all of it at once.

    One label after the other would wait several times for memory: with millions of labels that
    takes longer than everything else.
    """
    read, counts = 0, 0.0
    for t in range(len(tasks)):
        read += state.task[tasks[t], LABELS] + state.worker_link[workers[t], NEWEST]
    for t in range(len(tasks)):
        last = max(state.task[tasks[t], LAST], 0)
        newest = max(state.worker_link[workers[t], NEWEST], 0)
        read += int(state.belief[tasks[t], TASK_PATH]) + state.chunk[last, NEXT]
        read += state.label[newest, NEWER] + state.label[CHUNK * last, OLDER]
        counts += state.worker[workers[t], GIVEN]
        if len(state.vote):
            counts += state.vote[CHUNK * last]
    for t in range(len(tasks)):
        chunk, left = state.task[tasks[t], FIRST], state.task[tasks[t], LABELS]
        while left > 0:
            for place in range(min(left, CHUNK)):
                counts += state.worker[state.chunk[chunk, WHO + place], GIVEN]
            left -= CHUNK
            chunk = state.chunk[chunk, NEXT]
    state.whole[READ] = read + int(counts)  # or the compiler would leave the reading out


@kernel
def _vote_now(state: State, j: int, x: int, vote: float) -> float:
    """The vote of an answer that worker j gives now; as given if they are not here."""
    if not state.whole[IS_SETTLED] and state.worker[j, WORKER_IS_HERE]:
        return vote_of(state, j, x)
    return vote


@kernel
def _add(state: State, i: int, j: int, x: int, vote: float) -> float:
    label = append(state, i, j, x)
    if state.task[i, LABELS] == 1 and teaches_prior(state, i):
        teach_prior(state, i, 1)
    count(state, i, j, x, 1)
    if state.whole[IS_SETTLED]:
        refresh(state, i)
    else:
        state.vote[label] = vote
        state.belief[i, SCORE + 1] += vote
        follow_score(state, i)
    has_moved(state, i)
    return vote


@kernel
def _retract(state: State, i: int, label: int) -> float:
    """Remove a label and its part in the counts; its task is yet to be refreshed."""
    count(state, i, who_said(state, label), what_was_said(state, label), -1)
    if state.task[i, LABELS] == 1 and teaches_prior(state, i):
        teach_prior(state, i, -1)
    if state.whole[IS_SETTLED]:
        vote = 0.0
        remove(state, i, label)
    else:
        vote = state.vote[label]
        remove(state, i, label)
        if state.task[i, IS_HERE]:
            add_up(state, i)  # in order: subtracting would leave the vote's rounding behind
        else:
            state.belief[i, SCORE + 1] -= vote
    if state.task[i, LABELS] == 0 and state.task[i, IS_HERE]:
        begin(state, i)
    return -vote


@kernel
def begin_all(state: State, first: int, end: int) -> None:
    """Let these new tasks be where a task begins."""
    for i in range(first, end):
        begin(state, i)


@kernel
def describe(state: State, i: int, gold: int, prior: int) -> None:
    """Let task i be gold of this class, or not (NONE), and have this row for its prior, or NONE."""
    if teaches_prior(state, i):
        teach_prior(state, i, -1)
    was_gold = state.task[i, GOLD] != NONE
    set_gold(state, i, gold)
    state.task[i, PRIOR] = prior
    if teaches_prior(state, i):
        teach_prior(state, i, 1)
    if state.task[i, IS_HERE] and (state.task[i, LABELS] == 0 or (was_gold and gold == NONE)):
        _begin_again(state, i)
    refresh(state, i)
    has_moved(state, i)


@kernel
def set_gold(state: State, i: int, gold: int) -> None:
    """Let task i be gold of this class, or not; its workers who are here are counted right."""
    known = state.task[i, GOLD]
    if known == gold:
        return
    label = CHUNK * state.task[i, FIRST]
    for _ in range(state.task[i, LABELS]):
        j, x = who_said(state, label), what_was_said(state, label)
        if state.worker[j, WORKER_IS_HERE]:
            count_on_gold(state, known, j, x, -1)
            count_on_gold(state, gold, j, x, 1)
            worker_has_moved(state, j)  # however little the belief has
        label = following(state, label)
    state.task[i, GOLD] = gold


@kernel
def _begin_again(state: State, i: int) -> None:
    """As `begin`, for a task that may have labels: the counts of their workers follow."""
    change = state.by_class[CHANGE]
    belief = state.belief[i, BELIEF : BELIEF + len(change)]
    for k in range(len(change)):
        change[k] = -belief[k]
    begin(state, i)
    for k in range(len(change)):
        start, belief[k] = belief[k], -change[k]
        change[k] += start
    move(state, i)


@kernel
def refresh_due(state: State, labels: int) -> bool:
    """Refresh tasks that are due, until about so many labels are weighed; False when at rest."""
    weighed = 0
    while weighed < labels:
        i = next_due(state)
        if i != NONE:
            refresh(state, i)
            weighed += state.task[i, LABELS]
        elif spread(state):
            weighed += 1
        elif _crowd_has_moved(state):
            _take_note_of_crowd(state)
            state.whole[SWEEP] = 0
        else:
            return False
    return True


@kernel
def _crowd_has_moved(state: State) -> bool:
    """Whether g or π is further than the tolerance from where it was when all were last due."""
    if not state.whole[IS_SETTLED]:
        return False
    class_prior(state)
    far = abs(worth_of_stranger(state) - state.crowd[G_DUE])
    for k in range(state.by_class.shape[1]):
        far = max(far, abs(state.by_class[PI, k] - state.by_class[PI_DUE, k]))
    return bool(far > state.crowd[TOLERANCE])


@kernel
def _take_note_of_crowd(state: State) -> None:
    class_prior(state)
    state.crowd[G_DUE] = worth_of_stranger(state)
    for k in range(state.by_class.shape[1]):
        state.by_class[PI_DUE, k] = state.by_class[PI, k]


@kernel
def sweep(state: State) -> float:
    """Refresh every task once; how far the probability of any has moved."""
    farthest = 0.0
    for i in range(state.whole[TASKS_KNOWN]):
        if state.task[i, LABELS] > 0:
            farthest = max(farthest, refresh(state, i))
    return farthest


@kernel
def nothing_is_due(state: State) -> None:
    """Empty the queues: what they are for has been done."""
    while next_due(state) != NONE:
        pass
    while next_worker_due(state) != NONE:
        pass
    state.whole[WALK] = state.whole[SWEEP] = NONE
    _take_note_of_crowd(state)


@kernel
def recount(state: State) -> None:
    """Make the counts kept here anew from the labels, free of the rounding of differences."""
    state.crowd[ALL_TASKS] = 0.0
    state.by_class[RHO, :] = 0.0
    for i in range(state.whole[TASKS_KNOWN]):
        if teaches_prior(state, i):
            teach_prior(state, i, 1)
    state.crowd[ALL_GIVEN] = state.crowd[ALL_RIGHT] = 0.0
    for j in range(len(state.worker)):
        if state.worker[j, WORKER_IS_HERE]:
            recount_worker(state, j)


@kernel
def recount_worker(state: State, j: int) -> None:
    """Count the labels of worker j anew, and add them to those of all workers here."""
    worker = state.worker[j]
    worker[GIVEN] = worker[RIGHT] = 0.0
    worker[SAID:] = 0.0
    state.worker_link[j, ON_GOLD] = state.worker_link[j, RIGHT_ON_GOLD] = 0
    label = state.worker_link[j, NEWEST]
    while label != NONE:
        x = what_was_said(state, label)
        worker[GIVEN] += 1.0
        worker[SAID + x] += 1.0
        worker[RIGHT] += state.belief[task_of(state, label), BELIEF + x]
        count_on_gold(state, state.task[task_of(state, label), GOLD], j, x, 1)
        label = state.label[label, OLDER]
    state.crowd[ALL_GIVEN] += worker[GIVEN]
    state.crowd[ALL_RIGHT] += worker[RIGHT]


@kernel
def drain_moved(state: State, moved: Ints) -> int:
    """Write the tasks that moved since the last time to `moved`, as many as it holds."""
    for place in range(len(moved)):
        i = next_moved(state)
        if i == NONE:
            return place
        moved[place] = i
    return len(moved)


@kernel
def drain_moved_workers(state: State, moved: Ints) -> int:
    """Write the workers whose counts moved since the last time to `moved`, as many as it holds."""
    for place in range(len(moved)):
        j = next_worker_moved(state)
        if j == NONE:
            return place
        moved[place] = j
    return len(moved)


@kernel
def overlook(
    task: Ints32,
    belief: Floats,
    classes: int,
    tasks: Ints,
    labels: Ints,
    golds: Ints,
    leads: Floats,
) -> None:
    """Of each task: its number of labels, its gold or NONE, and how far its first class is ahead.

    That is in log-odds, over the second class, and without gold. With two arrays of the state it
    is a quick call.
    """
    for t in range(len(tasks)):
        i = tasks[t]
        labels[t] = task[i, LABELS]
        golds[t] = task[i, GOLD]
        first = second = -np.inf
        for k in range(classes):
            score = belief[i, BELIEF + classes + k]
            if score > first:
                first, second = score, first
            elif score > second:
                second = score
        leads[t] = first - second
