"""Which tasks are assigned to which workers: an assignment is a lease, and leases end."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from sbic.wire.assignments import MAX_COUNT, AssignmentId, AssignmentRecord

# Which requests of a partition have been answered, for those that may be consumed again.
#
# The highest offset alone is not enough: a forged assignment would leave all requests before it
# unanswered.


REMEMBERED = 20_000  # requests: more than can be answered and not yet committed


class Out(NamedTuple):
    """How many assignments of a request are given; `complete`: there will be no more.

    `published`: how many are on the topic, whichever instance has given them; after a refusal, all.
    """

    numbers: int
    complete: bool
    published: int


ALL = MAX_COUNT
NOTHING_OUT = Out(0, complete=False, published=0)


class AnsweredRequests:
    """The requests of one partition, by offset and worker.

    >>> answered = AnsweredRequests()
    >>> answered.add(42, "w1", 0, is_refused=False)
    >>> answered.numbers_out(42, "w1", 3), answered.numbers_out(42, "w2", 3)
    (1, 0)
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._out: dict[tuple[int, str], Out] = {}
        self._first = 0  # all requests before this offset are answered

    def add(self, offset: int, worker: str, number: int, is_refused: bool) -> None:
        """Record that an assignment of a request is given, or refused."""
        self._set(offset, worker, Out(number + 1, is_refused, self._of(offset, worker).published))

    def publish(self, offset: int, worker: str, number: int, is_refused: bool) -> None:
        """Record that an assignment of a request, or its refusal, is on the topic."""
        published = ALL if is_refused else number + 1
        self._set(offset, worker, self._of(offset, worker)._replace(published=published))

    def is_published(self, offset: int, worker: str, number: int) -> bool:
        """Whether an assignment of a request, or a later one, is on the topic."""
        return offset < self._first or self._of(offset, worker).published > number

    def _of(self, offset: int, worker: str) -> Out:
        return self._out.get((offset, worker), NOTHING_OUT)

    def _set(self, offset: int, worker: str, out: Out) -> None:
        self._out[offset, worker] = out
        if len(self._out) > 2 * self._remembered:
            in_order = sorted(self._out)
            self._first = in_order[self._remembered][0]
            for request in in_order[: self._remembered]:
                del self._out[request]

    def reopen(self, offset: int, worker: str, number: int) -> None:
        """Record that an assignment of a request, and those after it, are not given after all.

        >>> answered = AnsweredRequests()
        >>> answered.add(42, "w1", 2, is_refused=False)
        >>> answered.reopen(42, "w1", 1)
        >>> answered.numbers_out(42, "w1", 3)
        1
        """
        out = self._of(offset, worker)
        if out.numbers > number:
            self._out[offset, worker] = out._replace(numbers=number, complete=False)

    def is_refused(self, offset: int, worker: str, number: int) -> bool:
        """Whether this assignment of a request is a refusal."""
        out = self._of(offset, worker)
        return out.complete and out.numbers == number + 1

    def numbers_out(self, offset: int, worker: str, count: int) -> int:
        """How many of the `count` assignments of a request are given already."""
        if offset < self._first:
            return count
        out = self._of(offset, worker)
        return count if out.complete else min(count, out.numbers)


# Leases by worker and task, each kept until its time or until it is dropped.


class Lease(NamedTuple):
    """One task, assigned to one worker by the owner of `partition`."""

    id: AssignmentId
    partition: int
    expires_at: int


NOTHING: Mapping[str, Lease] = {}


class TimedLeases:
    """Leases, and a heap by time, in which entries of dropped leases are skipped.

    >>> leases = TimedLeases(extra=0)
    >>> leases.add("w1", "t1", Lease(AssignmentId(3, 42, 0), 3, expires_at=600))
    >>> leases.add("w1", "t2", Lease(AssignmentId(3, 43, 0), 3, expires_at=700))
    >>> [task for _, task, _ in leases.take_due(now=600)], len(leases)
    (['t1'], 1)
    """

    def __init__(self, extra: int) -> None:
        self._extra = extra  # how long leases are kept after their expiry
        self._by_worker: dict[str, dict[str, Lease]] = {}
        self._times: list[tuple[int, str, str, AssignmentId]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[str, str, Lease]]:
        for worker, leases in self._by_worker.items():
            for task, lease in leases.items():
                yield worker, task, lease

    def of(self, worker: str) -> Mapping[str, Lease]:
        """Return the leases of a worker, by task."""
        return self._by_worker.get(worker, NOTHING)

    def add(self, worker: str, task: str, lease: Lease) -> None:
        """Add a lease; the worker must have none of this task."""
        self._by_worker.setdefault(worker, {})[task] = lease
        self._size += 1
        heappush(self._times, self._entry(worker, task, lease))
        if len(self._times) > 2 * self._size + 64:  # most are dropped before their time
            self._times = [self._entry(*kept) for kept in self]
            heapify(self._times)

    def drop(self, worker: str, task: str, name: AssignmentId | None = None) -> Lease | None:
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

    def _entry(self, worker: str, task: str, lease: Lease) -> tuple[int, str, str, AssignmentId]:
        return lease.expires_at + self._extra, worker, task, lease.id


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
    >>> given = AssignmentRecord("w1", "t1", AssignmentId(3, 42, 0), expires_at=600, ended=False)
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
        """Return the leases of a worker, by task."""
        return self._running.of(worker)

    def expired(self, worker: str) -> Mapping[str, Lease]:
        """Return the expired leases of a worker that are remembered, by task."""
        return self._expired.of(worker)

    def ended(self, worker: str) -> Mapping[str, Lease]:
        """Return the leases of a worker that other instances ended before they expired, by task."""
        return self._ended.of(worker)

    def in_flight(self, task: str) -> int:
        """How many workers have a lease of a task now."""
        return self._in_flight.get(task, 0)

    def among(self, partitions: set[int]) -> Iterator[tuple[str, str, Lease]]:
        """Worker, task and lease of each lease in these partitions."""
        return (given for given in self._running if given[2].partition in partitions)

    def learn(self, assignment: AssignmentRecord, partition: int, now: int) -> None:
        """Apply a record of the topic; a record that was applied before changes nothing.

        The first assignment of an id that is on the topic stands: where this instance has given
        another one with the same id, it gives way.

        >>> leases = Leases()
        >>> own = Lease(AssignmentId(3, 42, 0), partition=3, expires_at=600)
        >>> leases.give(Request("", 3, 42, "w1"), 0, "t1", own, now=0)
        >>> leases.learn(AssignmentRecord("w1", "t2", own.id, 600, ended=False), 3, now=0)
        >>> list(leases.of("w1"))
        ['t2']
        """
        worker, task, name, expires_at, ended = assignment
        if ended:
            lease = self.end(worker, task, name) if task is not None else None
            if task is not None and lease is not None:
                self._ended.add(worker, task, lease)
            return
        place, offset, number, source = name
        answered = self._answered[source, place]
        if not answered.is_published(offset, worker, number):
            self._give_way(assignment)
            answered.publish(offset, worker, number, task is None)
        if number >= answered.numbers_out(offset, worker, number + 1):
            request = Request(source, place, offset, worker)
            self.give(request, number, task, Lease(name, partition, expires_at), now)

    def is_published(self, assignment: AssignmentRecord) -> bool:
        """Whether any instance has published an assignment of this id, or of a later number."""
        place, offset, number, source = assignment.id
        return self._answered[source, place].is_published(offset, assignment.worker, number)

    def give(self, request: Request, number: int, task: str | None, lease: Lease, now: int) -> None:
        """Apply the next assignment of a request, or its refusal if there is no task."""
        source, place, offset, worker = request
        self._answered[source, place].add(offset, worker, number, task is None)
        if task is not None:
            self._add(worker, task, lease, now)

    def take_back(self, assignment: AssignmentRecord) -> None:
        """Undo an assignment of this instance that was not published; its request is open again.

        >>> leases, request = Leases(), Request("", 3, 42, "w1")
        >>> lease = Lease(AssignmentId(3, 42, 0), partition=3, expires_at=600)
        >>> leases.give(request, 0, "t1", lease, now=0)
        >>> leases.take_back(AssignmentRecord("w1", "t1", lease.id, 600, ended=False))
        >>> leases.in_flight("t1"), leases.numbers_out(request, count=1)
        (0, 0)
        """
        worker, task, name, *_ = assignment
        if task is not None:
            self.end(worker, task, name)
        place, offset, number, source = name
        self._answered[source, place].reopen(offset, worker, number)

    def _give_way(self, published: AssignmentRecord) -> None:
        """Undo this instance's assignment with the same id as a different published one."""
        worker, task, name, *_ = published
        place, offset, number, source = name
        chosen = [own for own, lease in self.of(worker).items() if lease.id == name]
        refused = self._answered[source, place].is_refused(offset, worker, number)
        if (chosen and chosen != [task]) or (refused and task is not None):
            for own in chosen:
                self.end(worker, own, name)
            self._answered[source, place].reopen(offset, worker, number)

    def numbers_out(self, request: Request, count: int) -> int:
        """How many of the `count` assignments of a request are given already."""
        source, partition, offset, worker = request
        return self._answered[source, partition].numbers_out(offset, worker, count)

    def end(self, worker: str, task: str, name: AssignmentId | None = None) -> Lease | None:
        """End a worker's lease of a task, if there is one; with a name, only that lease."""
        self.forget(worker, task, name)
        lease = self._running.drop(worker, task, name)
        if lease is not None:
            self._count(task, -1)
        return lease

    def forget(self, worker: str, task: str, name: AssignmentId | None = None) -> None:
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
