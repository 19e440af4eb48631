"""What every policy is: the open tasks in order of a key, smallest first."""

from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.policies import order
from pipeline.policies.answers import Answers
from pipeline.policies.order import (
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
)
from pipeline.policies.progress import ProgressOfWorkers


class Policy:
    """The open tasks, as numbers: `names[number]` is what they are called everywhere.

    The lead of a task is how far its likeliest class is ahead of the second, in log-odds: never
    negative, and |log-odds| where there are two classes.

    Equal keys are common (every task begins with the same), and how they are ordered matters: by
    index, or by any order that stays, the same tasks meet the same workers again and again, and
    the crowd closes into blocks. So a task draws its place among equals anew with every label:
    a pseudo-random number made of the seed, the task's name and its count, the same in every
    process and whatever came before.
    """

    def __init__(self, names: Sequence[Hashable], weights: Weights, seed: int) -> None:
        self._names = names
        self._hash = blake2b(digest_size=7, key=str(seed).encode()[:16])
        self._order = order.empty_order(weights)
        self._progress = ProgressOfWorkers()

    def __len__(self) -> int:
        """How many tasks are open."""
        return int(self._order.whole[OPEN])

    def __contains__(self, task: int) -> bool:
        place = self._order.place
        return task < len(place) and bool(place[task, KEY] != NONE)

    def update(self, task: int, labels: int, lead: float, in_flight: int = 0) -> None:
        """Open `task`, or let its place follow its labels, lead and assignments in flight."""
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
        """Update the tasks that are open, and remove the others."""
        columns, done = (tasks, is_open, labels, leads, in_flight), 0
        while (done := order.follow(self._order, *columns, done)) < len(tasks):
            self._make_room(tasks[done:][is_open[done:]])

    def choose(self, answers: Answers, worker: Hashable | None = None) -> int | None:
        """The first task that is new to the worker, and stays open; None where there is none.

        When a worker is named, what they had answered when they last asked is not looked at
        again: a task that is among their answers no longer has to be given to `allow`.
        """
        progress = self._progress.follow(self._order, worker, answers)
        if progress is None:
            start, passed = order.FIRST, 0
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
        """Let `worker` get `task` again, which is no longer among their answers."""
        if task in self:
            self._progress.allow(task, worker)

    def forget(self) -> None:
        """Look at all tasks anew when a worker asks again, whatever became of their answers."""
        self._progress.by_worker.clear()

    @property
    def remembers_workers(self) -> bool:
        """Whether `allow` has to be called."""
        return bool(self._progress.by_worker)

    def _since(self, start: Place) -> Iterator[Ints]:
        """The tasks from `start` on, a run at a time."""
        _, starts, runs, *_ = self._order
        number, at = (0, 0) if start == order.FIRST else order.find(self._order, *start, NONE)
        for row in starts[number : self._order.whole[RUNS], ROW]:
            yield runs[row, TASKS + at : TASKS + runs[row, SIZE]]
            at = 0

    def _make_room(self, tasks: Ints) -> None:
        """For tasks that are opened, and draw what their places among equals are made of."""
        self._order = order.with_room(self._order, int(tasks.max()) + 1)
        salts = self._order.place[:, SALT]
        for task in tasks[salts[tasks] == NONE].tolist():
            drawn = self._hash.copy()
            drawn.update(repr(self._names[task]).encode())
            salts[task] = int.from_bytes(drawn.digest(), "big")
