"""The open tasks, sorted by key and tie, in arrays for compiled loops.

The order is divided into runs of task numbers, each in a row of an array. A task is found by binary
search, first among the runs and then within one. Moving a task shifts only the rest of its run.
"""

from typing import NamedTuple

import numpy as np

from pipeline.inference.labels import Floats, Ints

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


class Place(NamedTuple):
    """The position in the order before all tasks with this key and tie."""

    key: int
    tie: int


FIRST, LAST = Place(0, 0), Place(FAR, 0)


def empty_order(weights: Weights) -> Order:
    """An order without tasks, and without memory for any: see `with_room`."""
    place = np.zeros((0, PLACE_COLUMNS), np.int64)
    starts, runs = _laid_out(place, np.zeros(0, np.int64))
    changes = np.zeros(CHANGES, np.int64)
    return Order(place, starts, runs, changes, np.array(weights), np.array([1, 0, 0]))


def with_room(order: Order, tasks: int) -> Order:
    """Reserve memory for so many tasks; if no row is free, lay out all runs again."""
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
    """Starts and runs of sorted tasks: each run half full, and as many free rows as runs."""
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
