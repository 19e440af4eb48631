"""What every policy is: the open tasks in order of a key, smallest first."""

from collections.abc import Container, Hashable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

Task = TypeVar("Task", bound=Hashable)
Entry = tuple[float, int, Task]


class Policy(Generic[Task]):
    """A heap of (key, tie, task); an entry whose task has a newer one is dropped where it is met.

    Equal keys are common (every task begins with the same), and how they are ordered matters: by
    index, or by any order that stays, the same tasks meet the same workers again and again, and
    the crowd closes into blocks. So a task draws its place among equals anew with every label:
    a pseudo-random number made of the seed, the task and its count, the same in every process
    and whatever came before.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = str(seed).encode()[:16]
        self._heap: list[Entry[Task]] = []
        self._current: dict[Task, Entry[Task]] = {}
        self._salt: dict[Task, int] = {}
        self._aside: list[Entry[Task]] = []  # of answered tasks, taken out of the heap
        self._is_same_worker = False

    def __len__(self) -> int:
        """How many tasks are open."""
        return len(self._current)

    def __contains__(self, task: Task) -> bool:
        return task in self._current

    def update(self, task: Task, labels: int, log_odds: float, in_flight: int = 0) -> None:
        """Open `task`, or let its place follow its labels, log-odds and assignments in flight."""
        raise NotImplementedError

    def remove(self, task: Task) -> None:
        """Close `task`: it is not chosen again until the next `update`."""
        if self._current.pop(task, None) is not None:
            del self._salt[task]

    def choose(self, answered: Container[Task]) -> Task | None:
        """The first task not in `answered`, which stays open; None where there is no such task."""
        heap, current = self._heap, self._current
        chosen = None
        while heap:
            entry = heap[0]
            task = entry[2]
            if current.get(task) is not entry:
                heappop(heap)
            elif task in answered:
                self._aside.append(heappop(heap))
            else:
                chosen = task
                break
        if not self._is_same_worker:
            self._put_back()
        return chosen

    @contextmanager
    def same_worker(self) -> Iterator[None]:
        """Choices within are for one worker, whose answers only become more.

        So what is passed over once need not be met again: n choices past k answered tasks cost
        n + k steps and not n * k.
        """
        self._is_same_worker = True
        try:
            yield
        finally:
            self._is_same_worker = False
            self._put_back()

    def _put_back(self) -> None:
        for entry in self._aside:
            heappush(self._heap, entry)
        self._aside.clear()

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
        heap, current = self._heap, self._current
        if heap and current.get(task) is heap[0]:  # chosen just now: the usual case
            heapreplace(heap, entry)
        else:
            heappush(heap, entry)
        current[task] = entry
        if len(heap) > 2 * len(current) + 64:
            self._heap = list(current.values())
            heapify(self._heap)
            self._aside.clear()  # they are among these

    def _draw(self, task: Task) -> int:
        digest = blake2b(repr(task).encode(), digest_size=7, key=self._seed).digest()
        return int.from_bytes(digest, "big")
