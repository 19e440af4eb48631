"""The open tasks, sorted by key and tie: arrays, and compiled loops that keep them in order.

The order is divided into runs of task numbers, each in a row of an array. A task is found by
binary search, first among the runs and then within one. Moving a task shifts only the rest of its
run.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.labels import Floats, Ints

LONG = 128  # tasks in a run, which is then split
CHANGES = 1 << 16  # the most recent ones, kept for workers' progress

# Columns of `place`.
KEY = 0  # or NONE if the task is not open
TIE = 1
SALT = 2  # from which its ties are computed, or NONE if it is not drawn yet
PLACE_COLUMNS = 3
NONE = -1

# Columns of `starts`, the first two as above: a lower bound of the run, and an upper bound of the
# run before.
START = 2  # task
ROW = 3  # of `runs`
START_COLUMNS = 4

# Columns of `runs`.
SIZE = 0  # how many tasks the run has
TASKS = 1  # and following: up to LONG tasks, in order, and then their keys

# Indices of `whole`: the number of runs, of open tasks, and of moves so far.
RUNS, OPEN, MOVES = range(3)

LABEL, LEAD, IN_FLIGHT = range(3)  # indices of `weights`

FAR = 1 << 62  # a key after all others
FARTHEST = 2.0**61  # the largest key of a task


class Order(NamedTuple):
    """All arrays.

    `starts` has the runs in order, followed by the free rows. `changes` is a ring buffer of the
    tasks that moved last.
    """

    place: Ints
    starts: Ints
    runs: Ints
    changes: Ints
    weights: Floats
    whole: Ints


class Weights(NamedTuple):
    """The weights in a task's key of its labels, its lead, and its assignments in flight."""

    label: float
    lead: float
    in_flight: float


class Position(NamedTuple):
    """The position in the order before all tasks with this key and tie."""

    key: int
    tie: int


FIRST, LAST = Position(0, 0), Position(FAR, 0)


def empty_order(weights: Weights) -> Order:
    """Return an order without tasks, and without memory for any: see `with_room`."""
    place = np.zeros((0, PLACE_COLUMNS), np.int64)
    starts, runs = _laid_out(place, np.zeros(0, np.int64))
    changes = np.zeros(CHANGES, np.int64)
    return Order(place, starts, runs, changes, np.array(weights), np.array([1, 0, 0]))


def with_room(order: Order, tasks: int) -> Order:
    """Reserve memory for this many tasks; if no row is free, lay out all runs again."""
    if tasks > len(order.place):
        rows = max(tasks, 2 * len(order.place))
        place = np.full((rows, PLACE_COLUMNS), NONE, np.int64)
        place[: len(order.place)] = order.place
        order = order._replace(place=place)
    if order.whole[RUNS] == len(order.starts):
        runs = order.runs[order.starts[:, ROW]]
        is_task = np.arange(LONG) < runs[:, SIZE, None]
        starts, runs = _laid_out(order.place, runs[:, TASKS : TASKS + LONG][is_task])
        order.whole[RUNS] = len(starts) // 2
        order = order._replace(starts=starts, runs=runs)
    return order


def _laid_out(place: Ints, tasks: Ints) -> tuple[Ints, Ints]:
    """Return starts and runs of sorted tasks: each run half full, and as many free rows as runs."""
    half = LONG // 2
    used = max(1, -(-len(tasks) // half))
    runs = np.zeros((2 * used, TASKS + 2 * LONG), np.int64)
    starts = np.zeros((2 * used, START_COLUMNS), np.int64)
    starts[:, ROW] = np.arange(2 * used)
    if len(tasks):
        filled = np.resize(tasks, (used, half))
        runs[:used, SIZE] = np.minimum(half, len(tasks) - half * np.arange(used))
        runs[:used, TASKS : TASKS + half] = filled
        runs[:used, TASKS + LONG : TASKS + LONG + half] = place[filled, KEY]
        starts[:used, START] = filled[:, 0]
        starts[:used, [KEY, TIE]] = place[filled[:, 0]][:, [KEY, TIE]]
    return starts, runs


# Tie-breakers between tasks with the same key: pseudo-random, and the same in all processes.


# Multiplication is done by limbs of 31 bits: products fit into 63, whether or not it is compiled.
LIMB = 31
MASK = (1 << LIMB) - 1
STEP = 0x9E3779B97F4A7C15
STEP_0, STEP_1, STEP_2 = STEP & MASK, STEP >> LIMB & MASK, STEP >> 2 * LIMB
MIX = 0xD6E8FEB86659FD93
MIX_0, MIX_1, MIX_2 = MIX & MASK, MIX >> LIMB & MASK, MIX >> 2 * LIMB


@kernel
def tie_of(salt: int, labels: int, in_flight: int) -> int:
    """Return the tie-breaker: bits 32 to 91 of (salt ^ (labels + 2^32 in_flight) STEP) MIX.

    The middle bits of a product depend on all bits of both numbers.
    """
    step = labels + (in_flight << 32)
    low, middle, high = _product(
        step & MASK, step >> LIMB & MASK, step >> 2 * LIMB, STEP_0, STEP_1, STEP_2
    )
    _, middle, high = _product(low ^ salt & MASK, middle ^ salt >> LIMB, high, MIX_0, MIX_1, MIX_2)
    return middle >> 1 | (high & MASK >> 1) << LIMB - 1


@kernel
def _product(a0: int, a1: int, a2: int, b0: int, b1: int, b2: int) -> tuple[int, int, int]:
    """Return the lowest three limbs."""
    low = a0 * b0
    middle = (low >> LIMB) + a0 * b1 + a1 * b0
    high = (middle >> LIMB) + (a0 * b2 & MASK) + (a1 * b1 & MASK) + (a2 * b0 & MASK)
    return low & MASK, middle & MASK, high & MASK


# Operations on the order of open tasks, as compiled loops.


def place_of(order: Order, task: int) -> Position:
    """Return the position of a task."""
    return Position(*order.place[task, KEY : TIE + 1].tolist())


def moved_before(order: Order, end: Position, tasks: Ints, since: int) -> Ints:
    """Those of these tasks, and of the tasks moved since move `since`, that are before `end`.

    They are in order; a task that moved twice may be there twice.
    """
    room = np.empty(len(tasks) + order.whole[MOVES] - since, np.int64)
    found: Ints = room[: _before(order, *end, tasks, since, room)]
    return found


@kernel
def _before(order: Order, key: int, tie: int, tasks: Ints, since: int, found: Ints) -> int:
    count = 0
    for t in range(len(found)):
        change = (since + t - len(tasks)) % len(order.changes)
        task = tasks[t] if t < len(tasks) else order.changes[change]
        place = order.place[task]
        if place[KEY] != NONE and _is_before(place[KEY], place[TIE], task, key, tie, NONE):
            found[count] = task
            count += 1
    _sort(order.place, found, count)
    return count


@kernel
def _sort(place: Ints, tasks: Ints, count: int) -> None:
    """Shell's sort of the first tasks: there are few, and numpy's calls take longer."""
    gap = count // 2
    while gap:
        for t in range(gap, count):
            task, to = tasks[t], t
            key, tie = place[task, KEY], place[task, TIE]
            while to >= gap:
                other = tasks[to - gap]
                if not _is_before(key, tie, task, place[other, KEY], place[other, TIE], other):
                    break
                tasks[to] = other
                to -= gap
            tasks[to] = task
        gap //= 2


@kernel
def follow(
    order: Order,
    tasks: Ints,
    is_open: NDArray[np.bool_],
    labels: Ints,
    leads: Floats,
    in_flight: Ints,
    first: int,
) -> int:
    """Update the open tasks, from index `first` on, and remove the others.

    Return the index of the first task without memory or salt, or the number of tasks.
    """
    for t in range(first, len(tasks)):
        if not is_open[t]:
            remove(order, tasks[t])
        elif not update(order, tasks[t], labels[t], leads[t], in_flight[t]):
            return t
    return len(tasks)


@kernel
def update(order: Order, task: int, labels: int, lead: float, in_flight: int) -> bool:
    """Move a task to its position; False if it has no memory or no salt yet."""
    place, whole = order.place, order.whole
    if task >= len(place) or place[task, SALT] == NONE or whole[RUNS] == len(order.starts):
        return False
    weights = order.weights
    key = weights[LABEL] * labels + weights[LEAD] * lead + weights[IN_FLIGHT] * in_flight
    rounded = int(min(key + 0.5, FARTHEST))
    tie = tie_of(place[task, SALT], labels, in_flight)
    if place[task, KEY] == rounded and place[task, TIE] == tie:
        return True
    remove(order, task)
    place[task, KEY] = rounded
    place[task, TIE] = tie
    _insert(order, task)
    order.changes[whole[MOVES] % len(order.changes)] = task
    whole[MOVES] += 1
    return True


@kernel
def update_one(task: int, labels: int, lead: float, in_flight: int, *order: Any) -> bool:
    """As `update`, with the arrays as separate arguments: unpacking a tuple takes longer."""
    return update(Order(*order), task, labels, lead, in_flight)


@kernel
def remove(order: Order, task: int) -> None:
    """Remove a task, if it is open."""
    if task >= len(order.place) or order.place[task, KEY] == NONE:
        return
    number = _run_of(order, order.place[task, KEY], order.place[task, TIE], task)
    run = order.runs[order.starts[number, ROW]]
    keys = len(run) // 2
    at = TASKS
    while run[at] != task:
        at += 1
    for later in range(at, TASKS + run[SIZE] - 1):
        run[later] = run[later + 1]
        run[keys + later] = run[keys + later + 1]
    run[SIZE] -= 1
    order.place[task, KEY] = NONE
    order.whole[OPEN] -= 1
    if run[SIZE] == 0 and order.whole[RUNS] > 1:
        _drop(order, number)


@kernel
def _insert(order: Order, task: int) -> None:
    """Insert a task that has a key and is not in the order yet."""
    key = order.place[task, KEY]
    number, at = find(order, key, order.place[task, TIE], task)
    run = order.runs[order.starts[number, ROW]]
    keys = len(run) // 2
    for later in range(TASKS + run[SIZE], TASKS + at, -1):
        run[later] = run[later - 1]
        run[keys + later] = run[keys + later - 1]
    run[TASKS + at] = task
    run[keys + TASKS + at] = key
    run[SIZE] += 1
    order.whole[OPEN] += 1
    if run[SIZE] == keys:
        _cut(order, number)


@kernel
def _drop(order: Order, number: int) -> None:
    """Free the row of an empty run."""
    starts, last = order.starts, order.whole[RUNS] - 1
    free = starts[number, ROW]
    for later in range(number, last):
        for column in range(START_COLUMNS):
            starts[later, column] = starts[later + 1, column]
    starts[last, ROW] = free
    order.whole[RUNS] = last


@kernel
def _cut(order: Order, number: int) -> None:
    """Split a run; the second half gets the first free row."""
    starts, used = order.starts, order.whole[RUNS]
    free = starts[used, ROW]
    for later in range(used, number + 1, -1):
        for column in range(START_COLUMNS):
            starts[later, column] = starts[later - 1, column]
    run, new = order.runs[starts[number, ROW]], order.runs[free]
    half = run[SIZE] // 2
    new[SIZE] = run[SIZE] - half
    run[SIZE] = half
    keys = len(run) // 2
    for at in range(TASKS, TASKS + new[SIZE]):
        new[at] = run[half + at]
        new[keys + at] = run[keys + half + at]
    start = new[TASKS]
    starts[number + 1, KEY] = new[keys + TASKS]
    starts[number + 1, TIE] = order.place[start, TIE]
    starts[number + 1, START] = start
    starts[number + 1, ROW] = free
    order.whole[RUNS] = used + 1


@kernel
def find(order: Order, key: int, tie: int, task: int) -> tuple[int, int]:
    """Return the run of a task with this key and tie, in the order or not, and its index there."""
    number = _run_of(order, key, tie, task)
    run = order.runs[order.starts[number, ROW]]
    at, end = 0, run[SIZE]
    while at < end:
        middle = (at + end) // 2
        other, other_key = run[TASKS + middle], run[len(run) // 2 + TASKS + middle]
        # ties are read only if the keys are equal: they are not in the same cache line
        if other_key < key or (
            other_key == key and _is_before(key, order.place[other, TIE], other, key, tie, task)
        ):
            at = middle + 1
        else:
            end = middle
    return number, at


@kernel
def _run_of(order: Order, key: int, tie: int, task: int) -> int:
    """Return the last run that does not start after this position."""
    starts = order.starts
    number, end = 0, order.whole[RUNS] - 1
    while number < end:
        middle = (number + end + 1) // 2
        start = starts[middle]
        if _is_before(key, tie, task, start[KEY], start[TIE], start[START]):
            end = middle - 1
        else:
            number = middle
    return number


@kernel
def _is_before(key: int, tie: int, task: int, key_2: int, tie_2: int, task_2: int) -> bool:
    if key != key_2:
        return key < key_2
    if tie != tie_2:
        return tie < tie_2
    return task < task_2
