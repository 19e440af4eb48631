"""The open tasks in the order of key and tie, in arrays that compiled loops work on.

The order is cut into runs of task numbers, each in a row of an array. A task is found by binary
search, first among the runs and then in one, and moves without a shift of all that follow.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.labels import Floats, Ints
from pipeline.policies.ties import tie_of

LONG = 128  # tasks in a run, which is then cut in two
CHANGES = 1 << 16  # that are kept

# Columns of `place`.
KEY = 0  # or NONE where the task is not open
TIE = 1
SALT = 2  # what its ties are made of, or NONE where that is not known
PLACE_COLUMNS = 3
NONE = -1

# Columns of `starts`, the first two as above: a place that is not after any task of the run, nor
# before any of the run before.
START = 2  # task
ROW = 3  # of `runs`
START_COLUMNS = 4

# Columns of `runs`.
SIZE = 0  # how many tasks the run has
TASKS = 1  # and on: the tasks, in order; and after room for LONG of these, their keys

# Numbers in `whole`: of runs, of open tasks, and how often any was placed.
RUNS, OPEN, MOVES = range(3)

LABEL, LEAD, IN_FLIGHT = range(3)  # in `weights`

FAR = 1 << 62  # a key after all others
FARTHEST = 2.0**61  # that a task has


class Order(NamedTuple):
    """Everything.

    `starts` has the runs in order, and after them the rows that are free; `changes` the tasks that
    were placed last, the k-th of all at k modulo its length.
    """

    place: Ints
    starts: Ints
    runs: Ints
    changes: Ints
    weights: Floats
    whole: Ints


class Weights(NamedTuple):
    """What a key is made of: how much a label, the lead, and an assignment in flight count."""

    label: float
    lead: float
    in_flight: float


class Place(NamedTuple):
    """Before all tasks with this key and tie, and after those that come before them."""

    key: int
    tie: int


FIRST, LAST = Place(0, 0), Place(FAR, 0)


def empty_order(weights: Weights) -> Order:
    """No tasks, and room for none: see `with_room`."""
    place = np.zeros((0, PLACE_COLUMNS), np.int64)
    starts, runs = _laid_out(place, np.zeros(0, np.int64))
    changes = np.zeros(CHANGES, np.int64)
    return Order(place, starts, runs, changes, np.array(weights), np.array([1, 0, 0]))


def with_room(order: Order, tasks: int) -> Order:
    """Room for so many tasks; where no row is free, all runs are laid out anew."""
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
    """Starts and runs of tasks in order, each run filled by half; and as many free rows."""
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


def place_of(order: Order, task: int) -> Place:
    """The place of a task."""
    return Place(*order.place[task, KEY : TIE + 1].tolist())


def moved_before(order: Order, end: Place, tasks: Ints, since: int) -> Ints:
    """Of these tasks, and those placed after the first `since`: all before `end`, in order."""
    room = np.empty(len(tasks) + order.whole[MOVES] - since, np.int64)
    found = room[: _before(order, *end, tasks, since, room)]
    if len(found) > 1:
        found = found[np.lexsort((order.place[found, TIE], order.place[found, KEY]))]
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
    return count


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
    """Update the tasks that are open, from `first` on, and remove the others.

    Where one has no room yet, or no salt, that is returned; when all is done, their number.
    """
    for t in range(first, len(tasks)):
        if not is_open[t]:
            remove(order, tasks[t])
        elif not update(order, tasks[t], labels[t], leads[t], in_flight[t]):
            return t
    return len(tasks)


@kernel
def update(order: Order, task: int, labels: int, lead: float, in_flight: int) -> bool:
    """Let a task be where it belongs; False where it has no room yet, or no salt."""
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
    """As `update`; the arrays come one by one, since to unpack a tuple of them takes longer."""
    return update(Order(*order), task, labels, lead, in_flight)


@kernel
def remove(order: Order, task: int) -> None:
    """Take a task out, if it is open."""
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
    """Put a task in that has a place, and is not in yet."""
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
    """Free the row of a run that has become empty."""
    starts, last = order.starts, order.whole[RUNS] - 1
    free = starts[number, ROW]
    for later in range(number, last):
        for column in range(START_COLUMNS):
            starts[later, column] = starts[later + 1, column]
    starts[last, ROW] = free
    order.whole[RUNS] = last


@kernel
def _cut(order: Order, number: int) -> None:
    """Make two runs of one; the second gets the first row that is free."""
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
    """The run where a task with this key and tie is or would be, and its place there."""
    number = _run_of(order, key, tie, task)
    run = order.runs[order.starts[number, ROW]]
    at, end = 0, run[SIZE]
    while at < end:
        middle = (at + end) // 2
        other, other_key = run[TASKS + middle], run[len(run) // 2 + TASKS + middle]
        # ties are looked at where they matter: they lie far apart
        if other_key < key or (
            other_key == key and _is_before(key, order.place[other, TIE], other, key, tie, task)
        ):
            at = middle + 1
        else:
            end = middle
    return number, at


@kernel
def _run_of(order: Order, key: int, tie: int, task: int) -> int:
    """The last run that does not start after this."""
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
