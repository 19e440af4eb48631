"""The base of every policy: the open tasks sorted by a key, smallest first."""

from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.policies import order
from pipeline.policies.answers import Answers
from pipeline.policies.layout import (
    FIRST,
    KEY,
    NONE,
    OPEN,
    ROW,
    RUNS,
    SALT,
    SIZE,
    TASKS,
    Place,
    Weights,
    empty_order,
    with_room,
)
from pipeline.policies.progress import ProgressOfWorkers


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

    def choose(self, answers: Answers, worker: Hashable | None = None) -> int | None:
        """The first task that is new to the worker, which stays open; None if there is none.

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

    def _since(self, start: Place) -> Iterator[Ints]:
        """The tasks from `start` on, one run at a time."""
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
