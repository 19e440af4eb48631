"""Policies: which of the open tasks a worker answers next, by a key that the policy chooses."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats, Ints
from sbic.policy import order
from sbic.policy.order import (
    FIRST,
    KEY,
    LAST,
    MOVES,
    NONE,
    OPEN,
    ROW,
    RUNS,
    SALT,
    SIZE,
    TASKS,
    Order,
    Position,
    Weights,
    empty_order,
    moved_before,
    place_of,
    with_room,
)


class ExcludedSet(Protocol):
    """The tasks that a worker must not get."""

    def first_new(self, tasks: Ints) -> int:
        """Get the index of the first of these tasks that is new to the worker, or their number."""
        ...


class AnswerSet(set[int]):
    """A set of tasks.

    >>> import numpy as np
    >>> AnswerSet({4, 7}).first_new(np.array([7, 4, 5, 7]))
    2
    """

    def first_new(self, tasks: Ints) -> int:
        """Return the index of the first of these tasks that is not in the set, or their number."""
        for place, task in enumerate(tasks):
            if task not in self:
                return place
        return len(tasks)


# Where the search for a worker with many answers stopped, so that the next continues there.


WORTH = 512  # skipped tasks from which on progress is kept; fewer are skipped again as fast
WORKERS = 1000  # whose progress is kept at most


class WorkerProgress:
    """A worker has answered every open task before `start`, except some of those in `moved`."""

    __slots__ = ("looks", "moved", "passed", "seen", "start")

    def __init__(self, start: Position, passed: int, seen: int) -> None:
        self.start = start
        self.passed = passed  # about how many tasks before `start` are answered
        self.moved: Ints = np.zeros(0, np.int64)  # tasks that moved before `start` later, in order
        self.seen = seen  # how many moves of the order are in `moved`
        self.looks = 0  # at tasks in `moved` so far


class ProgressOfWorkers:
    """The progress of the workers with the most recent requests.

    It is dropped once following the moves has cost more than searching from the start would.
    """

    def __init__(self) -> None:
        self.by_worker: OrderedDict[Hashable, WorkerProgress] = OrderedDict()

    def allow(self, task: int, worker: Hashable) -> None:
        """Allow a worker to get a task again."""
        progress = self.by_worker.get(worker)
        if progress is not None:
            progress.moved = np.append(progress.moved, task)

    def follow(self, order: Order, worker: Hashable, answers: ExcludedSet) -> WorkerProgress | None:
        """Return a worker's progress after all moves, if kept; the first task in `moved` is new."""
        progress = self.by_worker.get(worker)
        if progress is None:
            return None
        unseen = int(order.whole[MOVES]) - progress.seen
        progress.looks += len(progress.moved) + unseen
        if unseen > len(order.changes) or progress.looks > progress.passed:
            del self.by_worker[worker]
            return None
        if unseen or len(progress.moved):
            moved = moved_before(order, progress.start, progress.moved, progress.seen)
            progress.moved = moved[answers.first_new(moved) :]
            progress.seen += unseen
        self.by_worker.move_to_end(worker)
        return progress

    def keep(self, order: Order, worker: Hashable, task: int | None, passed: int) -> None:
        """Record that a worker has answered all tasks before this one, if that saves time."""
        if passed < WORTH:
            return
        start = LAST if task is None else place_of(order, task)
        passed = min(passed, int(order.whole[OPEN]))
        self.by_worker[worker] = WorkerProgress(start, passed, int(order.whole[MOVES]))
        if len(self.by_worker) > WORKERS:
            self.by_worker.popitem(last=False)


# The base of every policy: the open tasks sorted by a key, smallest first.


class Policy:
    """The open tasks, as numbers; `names[number]` is the name of a task in all processes.

    The lead of a task is the distance of its most probable class from the second, in log-odds. It
    is never negative, and |log-odds| for two classes.

    Equal keys are common (all tasks start with the same), and their order matters: in any fixed
    order the same workers get the same tasks repeatedly, and the crowd divides into blocks. So with
    every label a task draws another tie-breaker: a pseudo-random number from the seed, the task's
    name and its counts, which is the same in every process and independent of the past.
    """

    def __init__(self, names: Sequence[Hashable], weights: Weights, seed: int) -> None:
        self._names = names
        self._hash = blake2b(digest_size=7, key=str(seed).encode()[:16])
        self._order = empty_order(weights)
        self._progress = ProgressOfWorkers()

    def __len__(self) -> int:
        """How many tasks are open."""
        return int(self._order.whole[OPEN])

    def __contains__(self, task: int) -> bool:
        place = self._order.place
        return task < len(place) and bool(place[task, KEY] != NONE)

    def update(self, task: int, labels: int, lead: float, in_flight: int = 0) -> None:
        """Open `task`, or update its labels, lead and assignments in flight."""
        while not order.update_one(task, labels, lead, in_flight, *self._order):
            self._make_room(np.array([task]))

    def remove(self, task: int) -> None:
        """Close `task`: it is not chosen again until the next `update`."""
        order.remove(self._order, task)

    def follow(
        self,
        tasks: Ints,
        is_open: NDArray[np.bool_],
        labels: Ints,
        leads: Floats,
        in_flight: Ints,
    ) -> None:
        """Update the open tasks, and remove the others."""
        columns, done = (tasks, is_open, labels, leads, in_flight), 0
        while (done := order.follow(self._order, *columns, done)) < len(tasks):
            self._make_room(tasks[done:][is_open[done:]])

    def choose(self, answers: ExcludedSet, worker: Hashable | None = None) -> int | None:
        """Return the first task that is new to the worker, which stays open; None if there is none.

        With a worker's name, tasks that they had answered at their last request are not checked
        again: if one of these is removed from their answers, `allow` must be called.
        """
        progress = self._progress.follow(self._order, worker, answers)
        if progress is None:
            start, passed = FIRST, 0
        elif len(progress.moved):
            return int(progress.moved[0])
        else:
            start, passed = progress.start, progress.passed
        chosen = None
        for tasks in self._since(start):
            first = answers.first_new(tasks)
            passed += first
            if first < len(tasks):
                chosen = int(tasks[first])
                break
        if worker is not None:
            self._progress.keep(self._order, worker, chosen, passed)
        return chosen

    def allow(self, task: int, worker: Hashable) -> None:
        """Allow `worker` to get `task` again, which was removed from their answers."""
        if task in self:
            self._progress.allow(task, worker)

    def forget(self) -> None:
        """Check all tasks again at each worker's next request."""
        self._progress.by_worker.clear()

    @property
    def remembers_workers(self) -> bool:
        """Whether `allow` has to be called."""
        return bool(self._progress.by_worker)

    def _since(self, start: Position) -> Iterator[Ints]:
        """Yield the tasks from `start` on, one run at a time."""
        _, starts, runs, *_ = self._order
        number, at = (0, 0) if start == FIRST else order.find(self._order, *start, NONE)
        for row in starts[number : self._order.whole[RUNS], ROW]:
            yield runs[row, TASKS + at : TASKS + runs[row, SIZE]]
            at = 0

    def _make_room(self, tasks: Ints) -> None:
        """Reserve memory for tasks that are opened, and draw their salts."""
        self._order = with_room(self._order, int(tasks.max()) + 1)
        salts = self._order.place[:, SALT]
        for task in tasks[salts[tasks] == NONE].tolist():
            drawn = self._hash.copy()
            drawn.update(repr(self._names[task]).encode())
            salts[task] = int.from_bytes(drawn.digest(), "big")


# Uniform sampling (equation 1): every task gets the same number of labels.


class Uniform(Policy):
    """The open task with the fewest labels, including assignments in flight.

    >>> from sbic.policy.policy import AnswerSet
    >>> policy = Uniform(["t1", "t2"], seed=1)
    >>> policy.update(0, labels=2, lead=0.0)
    >>> policy.update(1, labels=3, lead=0.0)
    >>> policy.choose(AnswerSet()), policy.choose(AnswerSet({0}))
    (0, 1)
    """

    def __init__(self, names: Sequence[Hashable], seed: int = 0) -> None:
        super().__init__(names, Weights(label=1.0, lead=0.0, in_flight=1.0), seed)


# Uncertainty sampling (equation 2): the least certain task first.


GRID = 2.0**30  # steps in a unit of log-odds: finer than matters, coarser than rounding errors


class Uncertainty(Policy):
    """The open task with the smallest lead: for two classes, the one closest to probability 1/2.

    An assignment in flight counts as if it had already increased the lead by `expected_weight`, the
    weight log(α / β) of a new worker's label. Leads that differ only by rounding errors are equal;
    otherwise their order would depend on the order of additions.

    >>> from sbic.policy.policy import AnswerSet
    >>> policy = Uncertainty(["t1", "t2"], seed=1, expected_weight=0.7)
    >>> policy.update(0, labels=2, lead=0.5)
    >>> policy.update(1, labels=2, lead=0.6)
    >>> policy.choose(AnswerSet())
    0
    >>> policy.update(0, labels=2, lead=0.5, in_flight=1)
    >>> policy.choose(AnswerSet())
    1
    """

    def __init__(
        self, names: Sequence[Hashable], seed: int = 0, expected_weight: float = 0.0
    ) -> None:
        weights = Weights(label=0.0, lead=GRID, in_flight=GRID * expected_weight)
        super().__init__(names, weights, seed)
