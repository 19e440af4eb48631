"""Where the search for a worker with many answers stopped, so that the next continues there."""

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from pipeline.inference.labels import Ints
from pipeline.policies.answers import Answers
from pipeline.policies.layout import LAST, MOVES, OPEN, Order, Place
from pipeline.policies.order import moved_before, place_of

WORTH = 512  # skipped tasks from which on progress is kept; fewer are skipped again as fast
WORKERS = 1000  # whose progress is kept at most


class Progress:
    """A worker has answered every open task before `start`, except some of those in `moved`."""

    __slots__ = ("looks", "moved", "passed", "seen", "start")

    def __init__(self, start: Place, passed: int, seen: int) -> None:
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
        self.by_worker: OrderedDict[Hashable, Progress] = OrderedDict()

    def allow(self, task: int, worker: Hashable) -> None:
        """Allow a worker to get a task again."""
        progress = self.by_worker.get(worker)
        if progress is not None:
            progress.moved = np.append(progress.moved, task)

    def follow(self, order: Order, worker: Hashable, answers: Answers) -> Progress | None:
        """A worker's progress after all moves, if it is kept; the first task in `moved` is new."""
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
        self.by_worker[worker] = Progress(start, passed, int(order.whole[MOVES]))
        if len(self.by_worker) > WORKERS:
            self.by_worker.popitem(last=False)
