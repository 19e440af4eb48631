"""How far workers with many answers have come in the order, so that they need not start over."""

from collections import OrderedDict
from collections.abc import Container, Hashable, Mapping
from heapq import heappop, heappush
from typing import Generic

from pipeline.policies.entry import Entry, Place, Task

WORTH = 128  # tasks passed over; fewer are passed over again as fast
WORKERS = 1000  # at most, whose progress is kept
CHANGES = 1 << 16  # at most, that are kept for all of them


class Progress(Generic[Task]):
    """A worker has answered every open task before `start`, except some of those in `moved`.

    `moved` is a heap of the entries that came before `start` later. One whose task has a newer
    entry, or is answered, is dropped where it is met.
    """

    __slots__ = ("_current", "moved", "passed", "seen", "start")

    def __init__(
        self, current: Mapping[Task, Entry[Task]], start: Place, passed: int, seen: int
    ) -> None:
        self._current = current
        self.start = start
        self.passed = passed  # about how many tasks are answered before `start`
        self.moved: list[Entry[Task]] = []
        self.seen = seen  # how many changes `moved` has followed

    def first_moved(self, answered: Container[Task]) -> Task | None:
        """The first of the tasks before `start` that is not in `answered`."""
        moved, current = self.moved, self._current
        while moved:
            task = moved[0][2]
            if current.get(task) is moved[0] and task not in answered:
                return task
            heappop(moved)
        return None


class ProgressOfWorkers(Generic[Task]):
    """The progress of the workers who asked last, and the tasks that have changed meanwhile.

    Progress is dropped where a walk past all that the worker has answered is cheaper than to
    follow the changes.
    """

    def __init__(self, current: Mapping[Task, Entry[Task]]) -> None:
        self._current = current
        self.by_worker: OrderedDict[Hashable, Progress[Task]] = OrderedDict()
        self._changes: list[Task] = []
        self._dropped = 0  # changes that came before those

    def changed(self, task: Task) -> None:
        """A task has a new entry: to be called while there is progress to follow it."""
        self._changes.append(task)
        if len(self._changes) > CHANGES:
            self._dropped += CHANGES // 2
            del self._changes[: CHANGES // 2]

    def allow(self, task: Task, worker: Hashable) -> None:
        """A worker may get a task again."""
        progress, entry = self.by_worker.get(worker), self._current.get(task)
        if progress is not None and entry is not None and entry < progress.start:
            heappush(progress.moved, entry)

    def forget(self, worker: Hashable) -> None:
        """Drop a worker's progress."""
        self.by_worker.pop(worker, None)

    def follow(self, worker: Hashable, answered: Container[Task]) -> Progress[Task] | None:
        """A worker's progress after all changes, if it is kept."""
        progress = self.by_worker.get(worker)
        if progress is None:
            return None
        unseen = self._dropped + len(self._changes) - progress.seen
        if unseen > min(len(self._changes), progress.passed // 4):
            self.forget(worker)
            return None
        start, moved = progress.start, progress.moved
        for task in self._changes[-unseen:] if unseen else ():
            entry = self._current.get(task)
            if entry is not None and entry < start and task not in answered:
                heappush(moved, entry)
        if len(moved) > progress.passed // 8:
            self.forget(worker)
            return None
        progress.seen += unseen
        self.by_worker.move_to_end(worker)
        return progress

    def keep(self, worker: Hashable, start: Place, passed: int) -> None:
        """Keep, if it is worth it, that a worker has answered all tasks before `start`."""
        if passed < WORTH:
            return
        if not self.by_worker:
            self._changes.clear()  # nobody follows them
        seen = self._dropped + len(self._changes)
        self.by_worker[worker] = Progress(self._current, start, passed, seen)
        if len(self.by_worker) > WORKERS:
            self.by_worker.popitem(last=False)
