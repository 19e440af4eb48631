"""Which tasks are out with which workers: an assignment is a lease, and leases end."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from pipeline.records.assignments import Assignment, place_of
from pipeline.stages.answered_requests import AnsweredRequests, Out
from pipeline.stages.timed_leases import Lease, TimedLeases

Source = tuple[str, int]
"""Where requests come from: the kind (`label`, or nothing for requests) and the partition."""

DAY = 24 * 3600 * 1000


class Request(NamedTuple):
    """A request: where it is, or was before it was forwarded, and whose it is."""

    source: str
    partition: int
    offset: int
    worker: str


class Leases:
    """The leases of all workers, from what is on the assignments topic; times in milliseconds.

    A lease ends with the label, a skip, or its expiry. An expired one is remembered for another
    `memory`: the worker's label may be on its way, or waiting while an instance is replaced, and
    must not meet the same task again. Nor may it when another instance says that a lease has ended:
    that is told at once, and after a crash the label may have to be taken again. Such a lease is
    remembered until its time would have been over. `changed` has the tasks that have more or fewer
    leases than when it was last emptied.

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
        self.forgotten: list[tuple[str, str]] = []  # worker and task of those no longer remembered
        self.expirations: Counter[int] = Counter()  # by partition, since they were last taken
        self._running = TimedLeases(extra=0)
        self._expired = TimedLeases(extra=memory)
        self._ended = TimedLeases(extra=0)
        self._in_flight: dict[str, int] = {}
        self._answered: defaultdict[Source, AnsweredRequests] = defaultdict(AnsweredRequests)

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_empty(self) -> bool:
        """Whether no lease is running, and none that is over is remembered."""
        return not (self._running or self._expired or self._ended)

    def of(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker, by task."""
        return self._running.of(worker)

    def expired(self, worker: str) -> Mapping[str, Lease]:
        """The leases that a worker let expire and that are remembered, by task."""
        return self._expired.of(worker)

    def ended(self, worker: str) -> Mapping[str, Lease]:
        """The leases of a worker that have ended elsewhere before their time, by task."""
        return self._ended.of(worker)

    def in_flight(self, task: str) -> int:
        """With how many workers a task is now."""
        return self._in_flight.get(task, 0)

    def among(self, partitions: set[int]) -> Iterator[tuple[str, str, Lease]]:
        """Worker, task and lease of each that owners of these partitions gave."""
        return (given for given in self._running if given[2].partition in partitions)

    def learn(self, assignment: Assignment, partition: int, now: int) -> None:
        """Take a record of a partition of the topic; one that came before changes nothing."""
        worker, task, name, expires_at, ended = assignment
        if ended:
            lease = self.end(worker, task, name) if task is not None else None
            if task is not None and lease is not None:
                self._ended.add(worker, task, lease)
            return
        source, place, offset, number = place_of(name)
        request = Request(source, place, offset, worker)
        if number >= self.numbers_out(request, number + 1):
            self._answered[source, place].add(offset, worker, Out(number + 1, task is None))
            if task is not None:
                self._add(worker, task, Lease(name, partition, expires_at), now)

    def take_back(self, assignment: Assignment) -> None:
        """An assignment that was made here is not published: its request is open again.

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
        """The topic has this of an id: another task that was chosen here for it never gets there.

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
        """How many of the `count` assignments that a request asks for are out already."""
        source, partition, offset, worker = request
        return self._answered[source, partition].numbers_out(offset, worker, count)

    def end(self, worker: str, task: str, name: str | None = None) -> Lease | None:
        """End a worker's lease of a task, if there is one (with a name: that one)."""
        self.forget(worker, task, name)
        lease = self._running.drop(worker, task, name)
        if lease is not None:
            self._count(task, -1)
        return lease

    def forget(self, worker: str, task: str, name: str | None = None) -> None:
        """Remember a lease that is over no longer, if there is one (with a name: that one)."""
        self._expired.drop(worker, task, name)
        self._ended.drop(worker, task, name)

    def expire(self, now: int) -> None:
        """End the leases whose time is over, and forget those that were over long ago."""
        for worker, task, lease in self._running.take_due(now):
            self._count(task, -1)
            self._expired.add(worker, task, lease)
            self.expirations[lease.partition] += 1
        for remembered in (self._expired, self._ended):
            self.forgotten += [(worker, task) for worker, task, _ in remembered.take_due(now)]

    def take_expirations(self, partitions: Container[int]) -> int:
        """How many leases of these partitions have expired since this was last asked."""
        expirations, self.expirations = self.expirations, Counter()
        return sum(count for partition, count in expirations.items() if partition in partitions)

    def _add(self, worker: str, task: str, lease: Lease, now: int) -> None:
        self.end(worker, task)  # a worker who was given the task again has the newer lease
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
