"""What every policy is: the open tasks in order of a key, smallest first."""

from collections.abc import Container, Hashable
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Generic

from pipeline.policies.entry import Entry, Place, Task
from pipeline.policies.progress import ProgressOfWorkers
from pipeline.policies.sorted_runs import SortedRuns


class Policy(Generic[Task]):
    """The entries (key, tie, task) of all open tasks: a sorted front, and the rest in a heap.

    The front has all that a choice ever passed over, so that answered tasks are passed over again
    without being moved. In the heap, an entry whose task has a newer one is dropped where it is
    met.

    Equal keys are common (every task begins with the same), and how they are ordered matters: by
    index, or by any order that stays, the same tasks meet the same workers again and again, and
    the crowd closes into blocks. So a task draws its place among equals anew with every label:
    a pseudo-random number made of the seed, the task and its count, the same in every process
    and whatever came before.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = str(seed).encode()[:16]
        self._current: dict[Task, Entry[Task]] = {}
        self._salt: dict[Task, int] = {}
        self._front: SortedRuns[Entry[Task]] = SortedRuns()
        self._end: Place = (-inf,)  # of the front
        self._heap: list[Entry[Task]] = []  # all after the end of the front
        self._progress = ProgressOfWorkers(self._current)

    def __len__(self) -> int:
        """How many tasks are open."""
        return len(self._current)

    def __contains__(self, task: Task) -> bool:
        return task in self._current

    def update(self, task: Task, labels: int, lead: float, in_flight: int = 0) -> None:
        """Open `task`, or let its place follow its labels, lead and assignments in flight.

        The lead is how far the likeliest class is ahead of the second, in log-odds: never
        negative, and |log-odds| where there are two classes.
        """
        raise NotImplementedError

    def remove(self, task: Task) -> None:
        """Close `task`: it is not chosen again until the next `update`."""
        entry = self._current.pop(task, None)
        if entry is not None:
            del self._salt[task]
            if entry <= self._end:
                self._front.remove(entry)

    def choose(self, answered: Container[Task], worker: Hashable | None = None) -> Task | None:
        """The first task not in `answered`, which stays open; None where there is no such task.

        When a worker is named, what they had answered when they last asked is not looked at
        again: a task that is in `answered` no longer has to be given to `allow`.
        """
        progress = None if worker is None else self._progress.follow(worker, answered)
        if progress is None:
            entry, passed = self._walk(answered)
            if worker is not None:
                self._progress.keep(worker, entry or self._end, passed)
        else:
            task = progress.first_moved(answered)
            if task is not None:
                return task
            entry, passed = self._walk(answered, progress.start)
            progress.start = entry or self._end
            progress.passed = min(progress.passed + passed, len(self._current))
        return None if entry is None else entry[2]

    def allow(self, task: Task, worker: Hashable) -> None:
        """Let `worker` get `task` again, which is no longer among their answers."""
        self._progress.allow(task, worker)

    def forget(self) -> None:
        """Look at all tasks anew when a worker asks again, whatever became of their answers."""
        self._progress.by_worker.clear()

    @property
    def remembers_workers(self) -> bool:
        """Whether `allow` has to be called."""
        return bool(self._progress.by_worker)

    def _walk(
        self, answered: Container[Task], start: Place | None = None
    ) -> tuple[Entry[Task] | None, int]:
        """The first entry from `start` on whose task is not answered; how many come before it."""
        passed = 0
        for entry in self._front if start is None else self._front.since(start):
            if entry[2] not in answered:
                return entry, passed
            passed += 1
        heap, current = self._heap, self._current
        while heap:
            entry = heap[0]
            is_current = current.get(entry[2]) is entry
            if is_current and entry[2] not in answered:
                return entry, passed
            heappop(heap)
            if is_current:
                self._front.add(entry)
                self._end = entry
                passed += 1
        return None, passed

    def _place(self, task: Task, key: float, labels: int, in_flight: int) -> None:
        """Give `task` this key, in place of the one it had."""
        salt = self._salt.get(task)
        if salt is None:
            salt = self._salt[task] = self._draw(task)
        # The middle bits of a product depend on all bits of both numbers; Python's own hash of
        # a tuple is the same in every process too, but leaves equals in similar orders.
        step = labels + (in_flight << 32)
        tie = ((salt ^ step * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 >> 32) & 0xFFFFFFFFFFFFFFF
        entry = (key, tie, task)
        heap, current, end = self._heap, self._current, self._end
        before = current.get(task)
        if before == entry:
            return
        if before is not None and before <= end:
            self._front.remove(before)
        current[task] = entry
        if entry <= end:
            self._front.add(entry)
        elif heap and heap[0] is before:  # chosen just now: the usual case
            heapreplace(heap, entry)
        else:
            heappush(heap, entry)
            if len(heap) > 2 * len(current) + 64:
                self._heap = [entry for entry in current.values() if entry > end]
                heapify(self._heap)
        if self._progress.by_worker:
            self._progress.changed(task)

    def _draw(self, task: Task) -> int:
        digest = blake2b(repr(task).encode(), digest_size=7, key=self._seed).digest()
        return int.from_bytes(digest, "big")
