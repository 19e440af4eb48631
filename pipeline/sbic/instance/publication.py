"""What an instance publishes: groups of results, the records they become, when these are due."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, thread_time, time_ns
from typing import Generic, NamedTuple, Protocol

from numpy.typing import ArrayLike

from sbic.classes import SKIP
from sbic.engine.labels import Ints
from sbic.instance.crowd import Changes, Crowd, Rows
from sbic.instance.estimates import EstimateRecords, Exchange
from sbic.instance.taken import Forwarded, R, Rejected, Taken
from sbic.instance.tasks import Counted
from sbic.instance.workers import encode_workers
from sbic.wire.bad import BadRecord
from sbic.wire.dead_letters import Header, Origin, dead_letter, forwarded_headers
from sbic.wire.partitions import Row
from sbic.wire.seal import Seal
from sbic.wire.traces import TRACEPARENT, TracedTask, traceparent_of, vote_headers


class Outbox(dict[tuple[str, int], list[Row]]):
    """Records to publish together, by topic and partition, each partition's in order."""

    def add(self, topic: str, partition: int, *rows: Row) -> None:
        """Add records to a partition."""
        self.setdefault((topic, partition), []).extend(rows)

    def add_all(self, other: "Outbox") -> None:
        """Add the records of another outbox."""
        for (topic, partition), rows in other.items():
            self.add(topic, partition, *rows)


class TopicNames(NamedTuple):
    """The topics that an instance writes to."""

    answers: str = "answers"
    votes: str = "votes"
    evidence: str = "evidence"
    posteriors: str = "posteriors"
    flat: str = "flat"
    workers: str = "workers"
    estimates: str = "estimates"
    dead_letters: str = "dead-letters"


SHARE = 0.01  # of the time, unless that would take too long
UNTHROTTLED = 0.0, 0.0


class Throttle:
    """Keeps an interval between two publications: longer ones, up to `most`, if they cost much.

    `wake` is called with the seconds until the next publication is due.
    """

    def __init__(self, least: float, most: float, wake: Callable[[float], object]) -> None:
        self.least = least
        self.most = most
        self.wake = wake
        self.due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether changes may be published now."""
        return monotonic() >= self.due

    def published(self, spent: float) -> None:
        """Wait from now on: a publication has just cost these seconds."""
        wait = min(max(self.least, spent / SHARE), self.most)
        self.due = monotonic() + wait  # first: it must not be woken too early
        self.wake(wait)


# Records that do not belong where they are: to another partition, or to the dead letters.


class Redirected(Protocol[R]):
    """Results with the records that are rejected and forwarded."""

    @property
    def rejected(self) -> Sequence[Rejected[R]]:
        """Records for the dead letters."""

    @property
    def forwarded(self) -> Sequence[Forwarded[R]]:
        """Good records for other partitions of their topic."""


class Redirector:
    """Turns records into dead letters, or forwards them to the partition of their key."""

    def __init__(self, dead_letters: str, partitions: int, seal: Seal) -> None:
        self.dead_letters = dead_letters
        self.partitions = partitions
        self.seal = seal

    def add(self, outbox: Outbox, results: Redirected[R]) -> None:
        """Add the records that are rejected, then those that are forwarded."""
        for rejected in results.rejected:
            self._reject(outbox, rejected)
        for forwarded in results.forwarded:
            self._forward(outbox, forwarded)

    def origin(self, record: R) -> Origin:
        """Return the topic, partition and offset that a record was first written to."""
        first = self.seal.origin(record, self.partitions)
        return first or Origin(record.topic, record.partition, record.offset)

    def _reject(self, outbox: Outbox, rejected: Rejected[R]) -> None:
        """Add a record to the dead letters, in the partition of the same number."""
        record, why = rejected
        letter = dead_letter(self.origin(record), record.key, record.value, why)
        row = Row(letter.key, letter.value, headers=[*letter.headers])
        outbox.add(self.dead_letters, record.partition, row)

    def _forward(self, outbox: Outbox, forwarded: Forwarded[R]) -> None:
        """Add a good record to the partition of its key, without headers that are too large."""
        record, key, partition = forwarded
        here = Origin(record.topic, record.partition, record.offset)
        origin = self.seal.origin_header(record.topic, partition, record.value, here)
        headers = forwarded_headers(record.headers, origin)
        outbox.add(
            record.topic, partition, Row(key.encode(), record.value, record.timestamp, headers)
        )


# Results of labels, votes and descriptions that are published together.


RECORDS_AT_ONCE = 8_000  # labels and votes in a group


class Evidence(NamedTuple):
    """A record for the evidence topic: votes that are counted now."""

    partition: int
    value: bytes


class Group(Generic[R]):
    """Results from several partitions, published together."""

    def __init__(self) -> None:
        self.taken: Taken[R] = Taken()
        self.evidence: list[Evidence] = []
        self.workers: set[int] = set()
        self.rejected: list[Rejected[R]] = []  # votes and descriptions
        self.forwarded: list[Forwarded[R]] = []  # descriptions
        self.estimates: list[EstimateRecords] = []
        self.timestamps: list[Ints] = []  # of labels that the posteriors will count
        self.has_all_estimates = False  # of all tasks and workers of this instance
        self.labels = 0
        self.votes = 0
        self.fenced_votes = 0
        self.records = 0

    @property
    def is_full(self) -> bool:
        """Whether agents have to wait for the next group."""
        return self.records >= RECORDS_AT_ONCE

    def took_labels(self, labels: int) -> None:
        """Note that the group has the results of this many more labels."""
        self.labels += labels
        self.records += labels

    def took_votes(self, partition: int, records: Sequence[R], counted: Counted) -> None:
        """Add what came of the votes in these records."""
        self.votes += counted.votes
        self.records += max(1, counted.votes)
        self.fenced_votes += counted.fenced
        for place in counted.new:
            value = records[place].value
            assert value is not None  # it had votes
            self.evidence.append(Evidence(partition, value))
        self.timestamps.append(counted.timestamps)

    def took_description(self) -> None:
        """Note that the group has the results of one more description."""
        self.records += 1

    def reject(self, record: R, why: BadRecord) -> None:
        """Add a record for the dead letters."""
        self.rejected.append(Rejected(record, why))


# Records for the estimates topic: changed tasks and workers, at most ten times a second.


ESTIMATES_SECONDS = 0.1, 2.0  # at least, at most


class EstimateUpdates:
    """Tasks and workers whose estimates the other instances do not have yet."""

    def __init__(
        self, exchange: Exchange, topic: str, wake: Callable[[float], object], *, throttled: bool
    ) -> None:
        self.exchange = exchange
        self.crowd = exchange.crowd
        self.topic = topic
        self.tasks = Changes()
        self.workers = Changes()
        self.throttle = Throttle(*(ESTIMATES_SECONDS if throttled else UNTHROTTLED), wake)

    def add_to(self, outbox: Outbox, tasks: Ints, workers: Ints) -> None:
        """Note tasks and workers that moved; add the estimates of all such, if they are due."""
        if self.crowd.is_alone:
            self.tasks.take()
            self.workers.take()
            self.crowd.engine.take_sums()
            self.crowd.engine.tally.take()
            self.crowd.standings.unsaid.clear()
            self.crowd.unsaid_skips.clear()
            return
        self.tasks.add(tasks)
        self.workers.add(workers)
        engine = self.crowd.engine
        has_news = self.tasks or self.workers or engine.sums_have_moved or engine.tally.has_news
        has_news = has_news or self.exchange.has_news
        if not has_news or not self.throttle.is_due:
            return
        begun = thread_time()
        moved, known = self.tasks.take(), self.workers.take()
        own = self.crowd.has_workers_of[self.crowd.worker.home[known]]
        estimates = self.exchange.estimates_of(moved[self.crowd.is_own_task(moved)], known[own])
        self.write(outbox, estimates)
        # every other instance spends about as much when it receives them
        self.throttle.published((thread_time() - begun) * self.crowd.instances)

    def write_all(self, outbox: Outbox) -> None:
        """Add the estimates of all own tasks and workers."""
        self.write(outbox, self.exchange.all_estimates())

    def write(self, outbox: Outbox, estimates: EstimateRecords) -> None:
        """Add records for the estimates topic."""
        for partition, values in estimates.items():
            outbox.add(self.topic, partition, *(Row(None, value) for value in values))


# Records for the workers topic: changed workers, at most once a second.


WORKERS_SECONDS = 1.0, 10.0  # at least, at most


class WorkerUpdates:
    """Workers whose records are to be published."""

    def __init__(
        self, crowd: Crowd, topic: str, wake: Callable[[float], object], *, throttled: bool
    ) -> None:
        self.crowd = crowd
        self.topic = topic
        self.changed = Changes()
        self.throttle = Throttle(*(WORKERS_SECONDS if throttled else UNTHROTTLED), wake)

    def add(self, workers: ArrayLike) -> None:
        """Publish these workers when the next publication is due."""
        self.changed.add(workers)

    def add_to(self, outbox: Outbox, *, is_flushing: bool) -> None:
        """Add the records of own workers that have changed, if they are due or flushed."""
        if not self.changed or not (self.throttle.is_due or is_flushing):
            return
        begun = thread_time()
        changed = self.changed.take()
        own = changed[self.crowd.has_workers_of[self.crowd.worker.home[changed]]]
        for partition, key, value in encode_workers(self.crowd, own):
            outbox.add(self.topic, partition, Row(key, value))
        self.throttle.published(thread_time() - begun)


# The traces of labels, carried to their posteriors.


MOST_PENDING = 10_000  # traced labels whose posterior is not published: the oldest are dropped
MOST_TRACED = 100  # traced labels of a group, for each partition of tasks


class Span(NamedTuple):
    """The work of this instance on a traced label, which began at `begun`, in nanoseconds."""

    name: str
    traceparent: bytes
    begun: int


class TracedVote(NamedTuple):
    """A traced label on a task of another instance."""

    task: TracedTask
    span: Span


class Traces:
    """The traces of labels whose posteriors or votes are not published yet."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.pending: dict[int, Span] = {}  # by task: the last label's
        self.away: dict[int, list[TracedVote]] = {}  # by partition of tasks

    def took(self, parts: Mapping[int, Sequence[R]], rows: Rows) -> None:
        """Follow the traced labels among these records; `rows` are those that count."""
        traced = [record for records in parts.values() for record in records if record.headers]
        if not traced:
            return
        rows = rows.only(rows.answers != SKIP)
        places = zip(rows.sources.tolist(), rows.offsets.tolist(), strict=True)
        tasks = dict(zip(places, rows.tasks.tolist(), strict=True))
        for record in traced:
            traceparent = traceparent_of(record.headers)
            task = tasks.get((record.partition, record.offset))
            if traceparent is not None and task is not None:
                self._add(task, traceparent)

    def _add(self, task: int, traceparent: bytes) -> None:
        home = int(self.crowd.task.home[task])
        if self.crowd.has_tasks_of[home]:
            self.follow(task, traceparent)
            return
        away = self.away.setdefault(home, [])
        if len(away) < MOST_TRACED:
            traced = TracedTask(self.crowd.tasks.names[task], traceparent)
            away.append(TracedVote(traced, Span("sbic.vote", traceparent, time_ns())))

    def follow(self, task: int, traceparent: bytes) -> None:
        """Let the next posterior of an own task carry this trace."""
        self.pending.pop(task, None)
        self.pending[task] = Span("sbic.posterior", traceparent, time_ns())
        if len(self.pending) > MOST_PENDING:
            del self.pending[next(iter(self.pending))]

    def mark_posteriors(self, tasks: Ints, rows: list[Row]) -> list[Span]:
        """Add the traces of these tasks to the headers of their posteriors."""
        spans = []
        if self.pending:
            for place, task in enumerate(tasks.tolist()):
                span = self.pending.pop(task, None)
                if span is not None:
                    rows[place] = with_headers(rows[place], (TRACEPARENT, span.traceparent))
                    spans.append(span)
        return spans

    def mark_votes(self, home: int, rows: list[Row]) -> list[Span]:
        """Add the traces of labels on another instance's tasks to the last record of votes."""
        away = self.away.pop(home, [])
        if not (away and rows):
            return []
        rows[-1] = with_headers(rows[-1], *vote_headers([vote.task for vote in away]))
        return [vote.span for vote in away]


def with_headers(row: Row, *headers: Header) -> Row:
    """Return the row with further headers."""
    return row._replace(headers=[*row.headers, *headers])
