"""Operations on the order of open tasks, as compiled loops."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.labels import Floats, Ints
from pipeline.policies.layout import (
    FARTHEST,
    IN_FLIGHT,
    KEY,
    LABEL,
    LEAD,
    MOVES,
    NONE,
    OPEN,
    ROW,
    RUNS,
    SALT,
    SIZE,
    START,
    START_COLUMNS,
    TASKS,
    TIE,
    Order,
    Place,
)
from pipeline.policies.ties import tie_of


def place_of(order: Order, task: int) -> Place:
    """The position of a task."""
    return Place(*order.place[task, KEY : TIE + 1].tolist())


def moved_before(order: Order, end: Place, tasks: Ints, since: int) -> Ints:
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
    """The run of a task with this key and tie, in the order or not, and its index there."""
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
    """The last run that does not start after this position."""
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
