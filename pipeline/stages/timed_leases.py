"""Leases by worker and task, each kept until its time or until it is dropped."""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Lease(NamedTuple):
    """One task, assigned to one worker by the owner of `partition`."""

    id: str
    partition: int
    expires_at: int


NOTHING: Mapping[str, Lease] = {}


class TimedLeases:
    """Leases, and a heap by time, in which entries of dropped leases are skipped.

    >>> leases = TimedLeases(extra=0)
    >>> leases.add("w1", "t1", Lease("3-42-0", 3, expires_at=600))
    >>> leases.add("w1", "t2", Lease("3-43-0", 3, expires_at=700))
    >>> [task for _, task, _ in leases.take_due(now=600)], len(leases)
    (['t1'], 1)
    """

    def __init__(self, extra: int) -> None:
        self._extra = extra  # how long leases are kept after their expiry
        self._by_worker: dict[str, dict[str, Lease]] = {}
        self._times: list[tuple[int, str, str, str]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[str, str, Lease]]:
        for worker, leases in self._by_worker.items():
            for task, lease in leases.items():
                yield worker, task, lease

    def of(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker, by task."""
        return self._by_worker.get(worker, NOTHING)

    def add(self, worker: str, task: str, lease: Lease) -> None:
        """Add a lease; the worker must have none of this task."""
        self._by_worker.setdefault(worker, {})[task] = lease
        self._size += 1
        heappush(self._times, self._entry(worker, task, lease))
        if len(self._times) > 2 * self._size + 64:  # most are dropped before their time
            self._times = [self._entry(*kept) for kept in self]
            heapify(self._times)

    def drop(self, worker: str, task: str, name: str | None = None) -> Lease | None:
        """Drop a lease, if there is one; with a name, only that lease."""
        leases = self._by_worker.get(worker)
        lease = leases.get(task) if leases else None
        if leases is None or lease is None or name not in (None, lease.id):
            return None
        del leases[task]
        if not leases:
            del self._by_worker[worker]
        self._size -= 1
        return lease

    def take_due(self, now: int) -> Iterator[tuple[str, str, Lease]]:
        """Drop and yield the leases whose time has come."""
        while self._times and self._times[0][0] <= now:
            _, worker, task, name = heappop(self._times)
            lease = self.drop(worker, task, name)
            if lease is not None:
                yield worker, task, lease

    def _entry(self, worker: str, task: str, lease: Lease) -> tuple[int, str, str, str]:
        return lease.expires_at + self._extra, worker, task, lease.id
