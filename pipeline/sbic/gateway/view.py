"""A gateway's view of a project in memory, built from records; without Kafka and HTTP."""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from time import monotonic, time
from typing import Any, NamedTuple

import numpy as np
from aiokafka import ConsumerRecord
from orjson import dumps

from sbic.classes import SIGNS, Classes, LabelForm
from sbic.engine.labels import Floats, Ints
from sbic.kafka.reader import parsed, readable
from sbic.status.contents import Standing
from sbic.status.report import Summary
from sbic.status.tallies import LEAST_LABELS, TaskTally, WorkerTally
from sbic.wire.posteriors import Posterior, on_one_line, posterior_parser
from sbic.wire.rendering import rendering_of
from sbic.wire.workers import read_worker

SHOWN = 20
MOST_GIVEN = 100  # labels of a worker in an answer


class Seen(NamedTuple):
    """The posteriors that changed since a count of changes, and the count now."""

    values: list[bytes]
    upto: int


class RecentChanges:
    """The last posterior of each of the tasks that changed last.

    >>> changes = RecentChanges()
    >>> for task, value in (("t1", b"1"), ("t2", b"2"), ("t1", b"3")):
    ...     changes.add(task, value)
    >>> seen = changes.since(0)
    >>> seen.values, changes.since(seen.upto).values
    ([b'2', b'3'], [])
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str, tuple[int, bytes]] = {}  # count and posterior, the newest last

    def add(self, task: str, value: bytes) -> None:
        """Add the new posterior of a task."""
        self.count += 1
        self._last.pop(task, None)
        self._last[task] = self.count, value
        if len(self._last) > SHOWN:
            del self._last[next(iter(self._last))]

    def since(self, count: int) -> Seen:
        """Return the posteriors that changed after this count, the newest last."""
        return Seen([value for at, value in self._last.values() if at > count], self.count)


# The history of a project since the gateway started, in at most a few hundred points.


MOST_POINTS = 500


class HistoryPoint(NamedTuple):
    """A time, in milliseconds, and the figures at that time."""

    at: int
    labels: int
    expected_wrong: float
    open: int
    closed: int


class History:
    """Points at equal intervals; when there are too many, every second one is dropped.

    >>> history = History(every_ms=10, most=4)
    >>> for at in range(0, 100, 5):
    ...     history.add(HistoryPoint(at, at, 0.5, 1, 0))
    >>> [point.at for point in history.points]
    [0, 40, 80, 95]
    """

    def __init__(self, every_ms: int = 1000, most: int = MOST_POINTS) -> None:
        self._every_ms = every_ms
        self._most = most
        self._kept: list[HistoryPoint] = []
        self._last: HistoryPoint | None = None

    def add(self, point: HistoryPoint) -> None:
        """Add the newest point."""
        self._last = point
        if self._kept and point.at < self._kept[-1].at + self._every_ms:
            return
        self._kept.append(point)
        if len(self._kept) >= self._most:
            self._kept = self._kept[::2]
            self._every_ms *= 2

    @property
    def points(self) -> list[HistoryPoint]:
        """The points kept, and the newest."""
        if self._last is None or self._last in self._kept[-1:]:
            return self._kept
        return [*self._kept, self._last]


# The recent latency from a label to the posterior that counts it.


KEPT = 1000
RECENT_MS = 600_000


class Latency:
    """The latency of the last posteriors with a new label: from its timestamp to publication.

    A label from before the first posterior of all waited for a recount, or for the first instance.

    >>> latency = Latency(clock=lambda: 100.0)
    >>> latency.add(published_at=89_000, labelled_at=1_000)
    >>> for ms in (10, 20, 30):
    ...     latency.add(published_at=90_000 + ms, labelled_at=90_000)
    >>> latency.as_object()
    {'median_ms': 20.0, 'p99_ms': 29.8}
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._seen: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._first_at: float = inf

    def add(self, published_at: int, labelled_at: int) -> None:
        """Add a posterior that counts a label; both times in milliseconds."""
        self._first_at = min(self._first_at, published_at)
        if labelled_at >= self._first_at:
            self._seen.append((published_at, published_at - labelled_at))

    def as_object(self) -> dict[str, float | None]:
        """Median and 99th percentile of the last ten minutes; null where there are none."""
        since = 1000 * self._clock() - RECENT_MS
        late = [max(0, ms) for at, ms in self._seen if at >= since]  # clocks may differ
        if not late:
            return {"median_ms": None, "p99_ms": None}
        median, p99 = np.percentile(late, (50, 99)).tolist()
        return {"median_ms": median, "p99_ms": round(p99, 3)}


# Pages of an order, which is sorted now and then in a thread, so that a page is cheap.


FRESH_SECONDS = 0.5
SHARE = 10  # an order is sorted again only after this many times as long as sorting took
QUICK_SECONDS = 0.02  # requests wait for a sort that is quicker than this
LATE_SECONDS = 5.0  # or else get an order that is stale by at most this


class Cursor(NamedTuple):
    """The end of a page: the key of its last record in the order, and its number."""

    key: float
    number: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse a cursor; raises `ValueError`.

        >>> Cursor.parse(str(Cursor(-0.25, 17)))
        Cursor(key=-0.25, number=17)
        """
        key, _, number = text.partition(":")
        return cls(float(key), int(number))

    def __str__(self) -> str:
        return f"{self.key}:{self.number}"


class Page(NamedTuple):
    """Numbers in order, and the cursor of the next page, if there is one."""

    numbers: list[int]
    next: Cursor | None


class Ranking:
    """Numbers in ascending order of their keys; of equal ones, the lower number first.

    >>> ranking = Ranking(np.array([4, 5, 6, 7]), np.array([0.5, 0.1, 0.5, 0.2]))
    >>> first = ranking.page(None, 3)
    >>> first.numbers, ranking.page(first.next, 3)
    ([5, 7, 4], Page(numbers=[6], next=None))

    A page begins after the key of the previous one, wherever that is now:

    >>> Ranking(np.array([4, 6, 7]), np.array([0.05, 0.6, 0.7])).page(first.next, 3).numbers
    [6, 7]
    """

    def __init__(self, numbers: Ints, keys: Floats) -> None:
        order = np.argsort(keys, kind="stable")
        self.numbers, self.keys = numbers[order], keys[order]

    def page(self, after: Cursor | None, limit: int) -> Page:
        """Return the first `limit` numbers, or those after a cursor."""
        start = 0 if after is None else self._index_after(after)
        end = start + limit
        numbers = self.numbers[start:end].tolist()
        more = end < len(self.numbers)
        last = Cursor(float(self.keys[end - 1]), numbers[-1]) if more else None
        return Page(numbers, last)

    def _index_after(self, cursor: Cursor) -> int:
        first = int(np.searchsorted(self.keys, cursor.key, "left"))
        last = int(np.searchsorted(self.keys, cursor.key, "right"))
        equal = self.numbers[first:last]
        return first + int(np.searchsorted(equal, cursor.number, "right"))


RankedColumns = Callable[[], tuple[Ints, Floats]]


class LiveRanking:
    """A ranking that is sorted again on request, but not too often.

    `columns` returns copies of the numbers and their keys, `key` the key of a number now: the
    numbers of a page are in the order of what they show, even if the ranking is a little old.
    """

    def __init__(
        self,
        columns: RankedColumns,
        key: Callable[[int], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._columns = columns
        self._key = key
        self._clock = clock
        self._ranking = Ranking(np.empty(0, np.int64), np.empty(0))
        self._stale_at = self._useless_at = 0.0
        self._sorting: asyncio.Task[None] | None = None

    async def page(self, after: Cursor | None, limit: int) -> Page:
        """Return the first `limit` numbers, or those after a cursor."""
        if self._clock() >= self._stale_at:
            if self._sorting is None:
                self._sorting = asyncio.create_task(self._sort())
            if self._clock() >= self._useless_at:
                await asyncio.shield(self._sorting)
        page = self._ranking.page(after, limit)
        return Page(sorted(page.numbers, key=self._key), page.next)

    async def _sort(self) -> None:
        try:
            started = self._clock()
            numbers, keys = self._columns()
            self._ranking = await asyncio.to_thread(Ranking, numbers, keys)
            took = self._clock() - started
            self._stale_at = self._clock() + max(FRESH_SECONDS, SHARE * took)
            self._useless_at = self._stale_at + (0.0 if took < QUICK_SECONDS else LATE_SECONDS)
        finally:
            self._sorting = None


# All tasks of a project: the last posterior of each, as published, and orders of them.


class TaskView:
    """The posteriors, as bytes: about 200 bytes a task besides its record.

    `orders` by name: the least certain first (`disputed`), the last changed first (`recent`), and
    the most certain first (`confidence`).
    """

    def __init__(self, tally: TaskTally, classes: Classes = SIGNS) -> None:
        self.tally = tally
        self._parse = posterior_parser(classes)
        self._rendering = rendering_of(classes)
        self.changes = RecentChanges()
        self.latency = Latency()
        self._values: list[bytes | None] = []
        self._published = array("q")  # times in milliseconds
        self._updated = array("q")
        self.orders = {
            "disputed": LiveRanking(self._by_doubt, lambda i: -tally.doubt(i)),
            "recent": LiveRanking(self._by_time, lambda i: -self._published[i]),
            "confidence": LiveRanking(self._by_confidence, tally.doubt),
        }

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the posteriors topic, each partition's in order."""
        # of several records of a task only the last is worth parsing
        for record in {record.key: record for record in records}.values():
            if record.value is None:
                self._remove(record)
                continue
            if posterior := readable(self._parse, record.value):
                self._add(record, posterior)

    def _add(self, record: ConsumerRecord, posterior: Posterior) -> None:
        i = self.tally.add(posterior)
        if i == len(self._values):
            self._values.append(None)
            self._published.append(0)
            self._updated.append(0)
        updated_at = posterior.updated_at
        if updated_at > self._updated[i]:  # otherwise it was recomputed without a new label
            self.latency.add(record.timestamp, updated_at)
        value = on_one_line(record.value)  # a newline would end a server-sent event
        self._values[i] = value
        self._published[i] = record.timestamp
        self._updated[i] = updated_at
        self.changes.add(posterior.task, value)

    def _remove(self, record: ConsumerRecord) -> None:
        i = self.tally.remove((record.key or b"").decode(errors="replace"))
        if i is not None:
            self._values[i] = None

    def get(self, task: str) -> bytes | None:
        """Return the last posterior of a task, as published; None if there is none."""
        i = self.tally.ids.known(task)
        return None if i is None else self._values[i]

    def prediction(self, task: str) -> LabelForm:
        """Return the prediction for a task, as published; None if there is none."""
        i = self.tally.ids.known(task)
        if i is None or self._values[i] is None:
            return None
        return self._rendering.prediction(self.tally.prediction(i))

    def all_values(self) -> list[bytes]:
        """Return the posteriors of all tasks."""
        return [value for value in self._values if value is not None]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """Return the posteriors of these numbers, without deleted tasks."""
        return [value for i in numbers if (value := self._values[i]) is not None]

    def _by_doubt(self) -> tuple[Ints, Floats]:
        tally = self.tally
        doubts = tally.doubts()
        is_disputed = (tally.label_counts() >= LEAST_LABELS) & (tally.golds() == 0) & (doubts > 0)
        places = np.flatnonzero(is_disputed)
        return places, -doubts[places]

    def _by_confidence(self) -> tuple[Ints, Floats]:
        tally = self.tally
        places = np.flatnonzero((tally.label_counts() > 0) & (tally.golds() == 0))
        return places, tally.doubts()[places]

    def _by_time(self) -> tuple[Ints, Floats]:
        return np.arange(len(self._published)), -np.array(self._published, np.float64)


# All workers of a project: the last record of each, as published, and orders of them.


class WorkerView:
    """The workers' records, as bytes.

    `orders` by name: the highest lower end of the interval first (`best`), the lowest upper end
    first (`worst`), and the most labels first (`labels`).
    """

    def __init__(self, tally: WorkerTally) -> None:
        self.tally = tally
        self._values: list[bytes] = []
        self.orders = {
            "best": LiveRanking(self._by_low, lambda j: -tally.low(j)),
            "worst": LiveRanking(self._by_high, tally.high),
            "labels": LiveRanking(self._by_labels, lambda j: -tally.labels_of(j)),
        }

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the workers topic, each partition's in order."""
        last = {record.key: record for record in records}.values()
        for record, worker in parsed(last, read_worker):
            j = self.tally.add(worker)
            if j == len(self._values):
                self._values.append(record.value)
            self._values[j] = record.value

    def get(self, worker: str) -> bytes | None:
        """Return the last record of a worker, as published; None if there is none."""
        j = self.tally.ids.known(worker)
        return None if j is None else self._values[j]

    def all_values(self) -> list[bytes]:
        """Return the records of all workers."""
        return list(self._values)

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """Return the records of these numbers."""
        return [self._values[j] for j in numbers]

    def _by_low(self) -> tuple[Ints, Floats]:
        places = np.flatnonzero(self.tally.label_counts())
        return places, -self.tally.lows()[places]

    def _by_high(self) -> tuple[Ints, Floats]:
        places = np.flatnonzero(self.tally.label_counts())
        return places, self.tally.highs()[places]

    def _by_labels(self) -> tuple[Ints, Floats]:
        labels = self.tally.label_counts()
        return np.arange(len(labels)), -labels.astype(np.float64)


# What a gateway knows of one project.


class ProjectView:
    """Tasks, workers, dead letters and labels that stand, as far as they have been read."""

    def __init__(self, summary: Summary, standing: Standing) -> None:
        self.summary = summary
        self.tasks = TaskView(summary.tasks, standing.classes)
        self.workers = WorkerView(summary.workers)
        self.standing = standing
        self.has_labels = False
        """Whether all labels that the topic had at first have been read."""
        self.history = History()
        self.status = b"{}"
        """The summary as JSON, encoded once for all requests."""

    def refresh(self) -> None:
        """Encode the summary, and add a point to the history."""
        summary, tasks = self.summary, self.summary.tasks
        self.status = dumps(summary.as_object())
        closed = sum(tasks.closed.values())
        self.history.add(
            HistoryPoint(
                summary.activity.at, tasks.labels, tasks.expected_wrong, tasks.open, closed
            )
        )

    def labels_read(self) -> None:
        """All labels of the topic have been read: from now on `answers` knows them."""
        self.has_labels = True

    def answers(self, task: str) -> list[dict[str, Any]] | None:
        """Return the standing labels of a task, with workers' accuracies; None: not read yet."""
        if not self.has_labels:
            return None
        return [
            {**answer._asdict(), "accuracy": self.workers.tally.accuracy(answer.worker)}
            for answer in self.standing.answers_to(task)
        ]

    def given_by(self, worker: str) -> list[dict[str, Any]] | None:
        """Return the last labels of a worker that stand, the newest first; None: not read yet."""
        if not self.has_labels:
            return None
        return [
            {"task": task, "label": label, "prediction": self.tasks.prediction(task)}
            for task, label in self.standing.given_by(worker, MOST_GIVEN)
        ]
