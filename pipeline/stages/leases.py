"""Which tasks are out with which workers: an assignment is a lease, and leases end."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from pipeline.records.assignments import Assignment, place_of

Source = tuple[str, int]
"""Where requests come from: the kind (`label`, or nothing for requests) and the partition."""

DAY = 24 * 3600 * 1000
NOTHING: Mapping[str, "Lease"] = {}


class Lease(NamedTuple):
    """One task, given to one worker by the owner of `partition`."""

    id: str
    partition: int
    expires_at: int


class Fence(NamedTuple):
    """The last request answered: its offset, and how many of its assignments are out.

    `complete`: there are no more, however many were asked for.
    """

    offset: int
    numbers: int
    complete: bool


class Leases:
    """The leases of all workers, from what is on the assignments topic; times in milliseconds.

    A lease ends with the label, a skip, or its expiry. An expired one is remembered for another
    `memory`: the worker's label may be on its way, or waiting while an instance is replaced, and
    must not meet the same task again. `changed` has the tasks that have more or fewer leases than
    when it was last emptied.

    >>> leases = Leases()
    >>> leases.learn(Assignment("w1", "t1", "3-42-0", expires_at=600, ended=False), now=0)
    >>> leases.in_flight("t1"), "t1" in leases.of("w1")
    (1, True)
    >>> leases.numbers_out("", 3, 42, count=1)  # the request at offset 42 again: answered
    1
    >>> leases.expire(600)
    >>> leases.in_flight("t1"), "t1" in leases.expired("w1")
    (0, True)
    """

    def __init__(self, memory: int = DAY) -> None:
        self.memory = memory
        self.changed: dict[str, None] = {}
        self._by_worker: dict[str, dict[str, Lease]] = {}
        self._in_flight: dict[str, int] = {}
        self._size = 0
        self._expiries: list[tuple[int, str, str, str]] = []
        self._expired: dict[str, dict[str, Lease]] = {}
        self._forgettable: list[tuple[int, str, str, str]] = []
        self._fences: dict[Source, Fence] = {}

    def __len__(self) -> int:
        return self._size

    def of(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker, by task."""
        return self._by_worker.get(worker, NOTHING)

    def expired(self, worker: str) -> Mapping[str, Lease]:
        """The leases that a worker let expire and that are remembered, by task."""
        return self._expired.get(worker, NOTHING)

    def in_flight(self, task: str) -> int:
        """With how many workers a task is now."""
        return self._in_flight.get(task, 0)

    def among(self, partitions: set[int]) -> Iterator[tuple[str, str, Lease]]:
        """Worker, task and lease of each that owners of these partitions gave."""
        for worker, leases in self._by_worker.items():
            for task, lease in leases.items():
                if lease.partition in partitions:
                    yield worker, task, lease

    def learn(self, assignment: Assignment, now: int) -> None:
        """Take a record of the topic; one that came before changes nothing."""
        worker, task, name, expires_at, ended = assignment
        try:
            source, partition, offset, number = place_of(name)
        except ValueError:
            return  # written by a stranger
        if ended:
            if task is not None:
                self.end(worker, task, name)
        elif number >= self.numbers_out(source, partition, offset, number + 1):
            self._fences[source, partition] = Fence(offset, number + 1, task is None)
            if task is not None:
                self._add(worker, task, Lease(name, partition, expires_at), now)

    def numbers_out(self, source: str, partition: int, offset: int, count: int) -> int:
        """How many of the `count` assignments that a request asks for are out already.

        Requests of a partition are answered in order, so one below the last has been answered.
        """
        fence = self._fences.get((source, partition))
        if fence is None or offset > fence.offset:
            return 0
        if offset < fence.offset or fence.complete:
            return count
        return min(count, fence.numbers)

    def end(self, worker: str, task: str, name: str | None = None) -> Lease | None:
        """End a worker's lease of a task, if there is one (with a name: that one)."""
        self._forget(worker, task, name)
        lease = self.of(worker).get(task)
        if lease is None or (name is not None and lease.id != name):
            return None
        _drop(self._by_worker, worker, task)
        self._size -= 1
        left = self._in_flight[task] - 1
        if left:
            self._in_flight[task] = left
        else:
            del self._in_flight[task]
        self.changed[task] = None
        return lease

    def expire(self, now: int) -> None:
        """End the leases whose time is over."""
        expiries = self._expiries
        while expiries and expiries[0][0] <= now:
            _, worker, task, name = heappop(expiries)
            lease = self.end(worker, task, name)
            if lease is not None:
                self._remember(worker, task, lease)
        forgettable = self._forgettable
        while forgettable and forgettable[0][0] <= now:
            _, worker, task, name = heappop(forgettable)
            self._forget(worker, task, name)

    def _add(self, worker: str, task: str, lease: Lease, now: int) -> None:
        self.end(worker, task)  # a worker who was given the task again has the newer lease
        if lease.expires_at <= now:
            self._remember(worker, task, lease)
            return
        self._by_worker.setdefault(worker, {})[task] = lease
        self._size += 1
        self._in_flight[task] = self._in_flight.get(task, 0) + 1
        heappush(self._expiries, (lease.expires_at, worker, task, lease.id))
        self.changed[task] = None

    def _remember(self, worker: str, task: str, lease: Lease) -> None:
        self._expired.setdefault(worker, {})[task] = lease
        heappush(self._forgettable, (lease.expires_at + self.memory, worker, task, lease.id))

    def _forget(self, worker: str, task: str, name: str | None) -> None:
        lease = self.expired(worker).get(task)
        if lease is not None and name in (None, lease.id):
            _drop(self._expired, worker, task)


def _drop(leases: dict[str, dict[str, Lease]], worker: str, task: str) -> None:
    of_worker = leases[worker]
    del of_worker[task]
    if not of_worker:
        del leases[worker]
