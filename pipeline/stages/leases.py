"""Which tasks are assigned to which workers: an assignment is a lease, and leases end."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from pipeline.records.assignments import Assignment, place_of
from pipeline.stages.answered_requests import AnsweredRequests, Out
from pipeline.stages.timed_leases import Lease, TimedLeases

Source = tuple[str, int]
"""The source of requests: the kind (`label`, or empty for requests) and the partition."""

DAY = 24 * 3600 * 1000


class Request(NamedTuple):
    """A request: its source, partition and offset before any forwarding, and its worker."""

    source: str
    partition: int
    offset: int
    worker: str


class Leases:
    """The leases of all workers, from the assignments topic; times in milliseconds.

    A lease ends with the label, a skip, or its expiry. An expired lease is remembered for another
    `memory`: the worker's label may be in flight, or wait while an instance is replaced, and the
    worker must not get the same task again. The same holds if another instance publishes the end of
    a lease: it does so at once, and after a crash the label may have to be taken again. Such a
    lease is remembered until it would have expired. `changed` has the tasks whose number of leases
    has changed since it was last emptied.

    >>> leases = Leases()
    >>> given = Assignment("w1", "t1", "3-42-0", expires_at=600, ended=False)
    >>> leases.learn(given, partition=3, now=0)
    >>> leases.in_flight("t1"), "t1" in leases.of("w1")
    (1, True)
    >>> leases.numbers_out(Request("", 3, 42, "w1"), count=1)  # the request again: answered
    1
    >>> leases.expire(600)
    >>> leases.in_flight("t1"), "t1" in leases.expired("w1")
    (0, True)
    """

    def __init__(self, memory: int = DAY) -> None:
        self.changed: dict[str, None] = {}
        self.forgotten: list[tuple[str, str]] = []  # worker and task of leases no longer remembered
        self.expirations: Counter[int] = Counter()  # by partition, since `take_expirations`
        self._running = TimedLeases(extra=0)
        self._expired = TimedLeases(extra=memory)
        self._ended = TimedLeases(extra=0)
        self._in_flight: dict[str, int] = {}
        self._answered: defaultdict[Source, AnsweredRequests] = defaultdict(AnsweredRequests)

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_empty(self) -> bool:
        """Whether no lease is running or remembered."""
        return not (self._running or self._expired or self._ended)

    def of(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker, by task."""
        return self._running.of(worker)

    def expired(self, worker: str) -> Mapping[str, Lease]:
        """The expired leases of a worker that are remembered, by task."""
        return self._expired.of(worker)

    def ended(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker that other instances ended before they expired, by task."""
        return self._ended.of(worker)

    def in_flight(self, task: str) -> int:
        """How many workers have a lease of a task now."""
        return self._in_flight.get(task, 0)

    def among(self, partitions: set[int]) -> Iterator[tuple[str, str, Lease]]:
        """Worker, task and lease of each lease in these partitions."""
        return (given for given in self._running if given[2].partition in partitions)

    def learn(self, assignment: Assignment, partition: int, now: int) -> None:
        """Apply a record of the topic; a record that was applied before changes nothing."""
        worker, task, name, expires_at, ended = assignment
        if ended:
            lease = self.end(worker, task, name) if task is not None else None
            if task is not None and lease is not None:
                self._ended.add(worker, task, lease)
            return
        source, place, offset, number = place_of(name)
        request = Request(source, place, offset, worker)
        if number >= self.numbers_out(request, number + 1):
            self.give(request, number, task, Lease(name, partition, expires_at), now)

    def give(self, request: Request, number: int, task: str | None, lease: Lease, now: int) -> None:
        """Apply the next assignment of a request, or its refusal if there is no task."""
        source, place, offset, worker = request
        self._answered[source, place].add(offset, worker, Out(number + 1, task is None))
        if task is not None:
            self._add(worker, task, lease, now)

    def take_back(self, assignment: Assignment) -> None:
        """Undo an assignment of this instance that was not published; its request is open again.

        >>> leases = Leases()
        >>> given = Assignment("w1", "t1", "3-42-0", expires_at=600, ended=False)
        >>> leases.learn(given, partition=3, now=0)
        >>> leases.take_back(given)
        >>> leases.in_flight("t1"), leases.numbers_out(Request("", 3, 42, "w1"), count=1)
        (0, 0)
        """
        worker, task, name, *_ = assignment
        if task is not None:
            self.end(worker, task, name)
        source, place, offset, number = place_of(name)
        self._answered[source, place].reopen(offset, worker, number)

    def give_way(self, published: Assignment) -> None:
        """Undo this instance's assignment with the same id as a different published one.

        >>> leases = Leases()
        >>> leases.learn(Assignment("w1", "t1", "3-42-0", 600, ended=False), partition=3, now=0)
        >>> published = Assignment("w1", "t2", "3-42-0", 600, ended=False)
        >>> leases.give_way(published)
        >>> leases.learn(published, partition=3, now=0)
        >>> list(leases.of("w1"))
        ['t2']
        """
        worker, task, name, *_ = published
        source, place, offset, number = place_of(name)
        chosen = [own for own, lease in self.of(worker).items() if lease.id == name]
        refused = self._answered[source, place].is_refused(offset, worker, number)
        if (chosen and chosen != [task]) or (refused and task is not None):
            for own in chosen:
                self.end(worker, own, name)
            self._answered[source, place].reopen(offset, worker, number)

    def numbers_out(self, request: Request, count: int) -> int:
        """How many of the `count` assignments of a request are published already."""
        source, partition, offset, worker = request
        return self._answered[source, partition].numbers_out(offset, worker, count)

    def end(self, worker: str, task: str, name: str | None = None) -> Lease | None:
        """End a worker's lease of a task, if there is one; with a name, only that lease."""
        self.forget(worker, task, name)
        lease = self._running.drop(worker, task, name)
        if lease is not None:
            self._count(task, -1)
        return lease

    def forget(self, worker: str, task: str, name: str | None = None) -> None:
        """Forget a remembered lease, if there is one; with a name, only that lease."""
        self._expired.drop(worker, task, name)
        self._ended.drop(worker, task, name)

    def expire(self, now: int) -> None:
        """End the leases that have expired, and forget remembered ones whose time is over."""
        for worker, task, lease in self._running.take_due(now):
            self._count(task, -1)
            self._expired.add(worker, task, lease)
            self.expirations[lease.partition] += 1
        for remembered in (self._expired, self._ended):
            self.forgotten += [(worker, task) for worker, task, _ in remembered.take_due(now)]

    def take_expirations(self, partitions: Container[int]) -> int:
        """How many leases of these partitions have expired since the last call."""
        expirations, self.expirations = self.expirations, Counter()
        return sum(count for partition, count in expirations.items() if partition in partitions)

    def _add(self, worker: str, task: str, lease: Lease, now: int) -> None:
        self.end(worker, task)  # if the worker gets the task again, the newer lease counts
        if lease.expires_at <= now:
            self._expired.add(worker, task, lease)
        else:
            self._running.add(worker, task, lease)
            self._count(task, 1)

    def _count(self, task: str, more: int) -> None:
        in_flight = self._in_flight[task] = self._in_flight.get(task, 0) + more
        if not in_flight:
            del self._in_flight[task]
        self.changed[task] = None
