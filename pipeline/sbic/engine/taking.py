"""Taking labels: each moves its task, and the counts of its worker, at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sbic.engine import RETRACT
from sbic.engine.compiled import inlined, kernel
from sbic.engine.drift import watch
from sbic.engine.due import has_moved, make_due
from sbic.engine.formulas import SCORE, add_up, vote_of
from sbic.engine.labels import Floats, Ints
from sbic.engine.ledger import answer_of, append, find, remove, worker_of
from sbic.engine.state import (
    ABOUT,
    CHUNK,
    FIRST,
    GIVEN,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    LAST,
    LINE,
    NEWER,
    NEWEST,
    NEXT,
    NONE,
    OLDER,
    READ,
    TASK_PATH,
    WHO,
    WORKER_IS_HERE,
    State,
)
from sbic.engine.update import (
    add_to_prior,
    begin,
    compare,
    count,
    follow_score,
    informs_prior,
    refresh,
    retell,
)

# The outcome of a label.
ADDED, REPLACED, REPEATED, RETRACTED, ABSENT = range(5)

AHEAD = 16  # labels: as many as fit into the L1 cache with all that they need


@kernel
def take(
    state: State,
    tasks: Ints,
    workers: Ints,
    answers: Ints,
    times: Ints,
    replaces: bool,
    outcomes: NDArray[np.int8],
    votes: Floats,
) -> None:
    """Take labels in order; write the outcome of each, and its vote under Fast SBIC.

    `times` are empty where nobody asks whether workers drift.
    """
    for t in range(len(tasks)):
        if t % AHEAD == 0:
            _look_ahead(state, tasks[t : t + AHEAD], workers[t : t + AHEAD], True)
        time = times[t] if len(times) else NONE
        outcomes[t], votes[t] = _take(
            state, tasks[t], workers[t], answers[t], replaces, votes[t], time
        )


@kernel
def take_one(state: State, i: int, j: int, x: int) -> tuple[int, float]:
    """Take one label of a worker who is counted here; return its outcome and its vote."""
    return _take(state, i, j, x, False, 0.0, NONE)


@kernel
def observe(i: int, j: int, x: int, *state: Any) -> float:
    """Take one label of two classes, and return its task's log-odds.

    The arrays of the state are separate arguments: unpacking a tuple takes longer than the rest.
    """
    arrays = State(*state)
    _take(arrays, i, j, int(x), False, 0.0, NONE)
    return float(arrays.belief[i, SCORE + 1] - arrays.belief[i, SCORE])


@kernel
def _take(
    state: State, i: int, j: int, x: int, replaces: bool, vote: float, time: int
) -> tuple[int, float]:
    known = find(state, i, j)
    if known == NONE:
        if x == RETRACT:
            return ABSENT, 0.0
        return ADDED, _add(state, i, j, x, _vote_now(state, j, x, vote), time)
    if x == RETRACT:
        vote = _retract(state, i, known)
        refresh(state, i)
        has_moved(state, i)
        return RETRACTED, vote
    if replaces and x != answer_of(state, known):
        _retract(state, i, known)
        if state.whole[IS_SETTLED]:
            refresh(state, i)
        return REPLACED, _add(state, i, j, x, _vote_now(state, j, x, vote), NONE)
    return REPEATED, 0.0


@kernel
def put(
    state: State, tasks: Ints, workers: Ints, answers: Ints, votes: Floats, defers: bool
) -> None:
    """Restore labels that were taken earlier or elsewhere; labels that stand already are skipped.

    Votes of Fast SBIC are not recomputed. With `defers`, a task becomes due instead of being
    computed at every label; but from nothing known at all, settled would not find its way.
    """
    for t in range(len(tasks)):
        if t % AHEAD == 0:
            _look_ahead(state, tasks[t : t + AHEAD], workers[t : t + AHEAD], not defers)
        i, j, x, vote = tasks[t], workers[t], answers[t], votes[t]
        known = find(state, i, j)
        if known != NONE:
            if x == answer_of(state, known) and (
                state.whole[IS_SETTLED] or state.vote[known] == vote
            ):
                continue
            _retract(state, i, known)
            if x == RETRACT:
                refresh(state, i)
                has_moved(state, i)
        if x == RETRACT:
            continue
        if defers and state.task[i, IS_HERE] and not _is_power_of_2(state.task[i, LABELS] + 1):
            _defer(state, i, j, x, vote)
        else:
            _add(state, i, j, x, vote, NONE)


@kernel
def _look_ahead(state: State, tasks: Ints, workers: Ints, refreshes: bool) -> None:
    """Read what the next labels will need, so that the reads from memory overlap.

    Otherwise every label would wait for memory several times: with millions of labels that takes
    longer than everything else.
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
    for t in range(len(tasks) if refreshes else 0):
        chunk, left = state.task[tasks[t], FIRST], state.task[tasks[t], LABELS]
        while left > 0:
            for place in range(min(left, CHUNK)):
                j = state.chunk[chunk, WHO + place]
                for column in range(0, state.worker.shape[1], LINE // 8):
                    counts += state.worker[j, column]
            if len(state.told):
                for label in range(CHUNK * chunk, CHUNK * chunk + CHUNK, LINE // 16):
                    counts += state.told[label, ABOUT]
            left -= CHUNK
            chunk = state.chunk[chunk, NEXT]
    state.whole[READ] = read + int(counts)  # otherwise the compiler would remove the reads


@inlined
def _vote_now(state: State, j: int, x: int, vote: float) -> float:
    """Return the vote of a new answer of worker j; as given if another engine counts the worker."""
    if not state.whole[IS_SETTLED] and state.worker[j, WORKER_IS_HERE]:
        return vote_of(state, j, x)
    return vote


@inlined
def _append(state: State, i: int, j: int, x: int) -> int:
    label = append(state, i, j, x)
    if state.task[i, LABELS] == 1 and informs_prior(state, i):
        add_to_prior(state, i, 1)
    count(state, i, j, x, 1)
    return int(label)


@kernel
def _is_power_of_2(number: int) -> bool:
    return number & (number - 1) == 0


@kernel
def _defer(state: State, i: int, j: int, x: int, vote: float) -> None:
    """Add a label to task i, which becomes due instead of being computed now."""
    label = _append(state, i, j, x)
    if not state.whole[IS_SETTLED]:
        state.vote[label] = vote
        state.belief[i, SCORE + 1] += vote
    make_due(state, i)
    has_moved(state, i)


@kernel
def _add(state: State, i: int, j: int, x: int, vote: float, time: int) -> float:
    label = _append(state, i, j, x)
    if state.whole[IS_SETTLED]:
        if time != NONE:
            watch(state, i, j, x, time)
        refresh(state, i)
        if state.worker[j, WORKER_IS_HERE]:
            compare(state, j)
    else:
        state.vote[label] = vote
        state.belief[i, SCORE + 1] += vote
        follow_score(state, i)
    has_moved(state, i)
    return vote


@kernel
def _retract(state: State, i: int, label: int) -> float:
    """Remove a label and its part in the counts; the caller refreshes its task."""
    j = worker_of(state, label)
    count(state, i, j, answer_of(state, label), -1)
    if state.whole[IS_SETTLED] and state.worker[j, WORKER_IS_HERE]:
        retell(state, label, 0.0, 0.0)
        compare(state, j)
    if state.task[i, LABELS] == 1 and informs_prior(state, i):
        add_to_prior(state, i, -1)
    if state.whole[IS_SETTLED]:
        vote = 0.0
        remove(state, i, label)
    else:
        vote = state.vote[label]
        remove(state, i, label)
        if state.task[i, IS_HERE]:
            add_up(state, i)  # summed in order: subtracting would leave a rounding error
        else:
            state.belief[i, SCORE + 1] -= vote
    if state.task[i, LABELS] == 0 and state.task[i, IS_HERE]:
        begin(state, i)
    return -vote
