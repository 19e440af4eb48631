"""Follows the labels that carry a trace, from when they are taken until their posterior is out."""

from collections.abc import Sequence
from time import time_ns
from typing import NamedTuple, Protocol

from aiokafka import ConsumerRecord

from pipeline.batched.producer import Row
from pipeline.classes import SKIP
from pipeline.inference.labels import Ints
from pipeline.records.traces import TRACEPARENT, TracedTask, traceparent_of, vote_headers
from pipeline.stages.crowd import Crowd
from pipeline.stages.rows import Rows

MOST_PENDING = 10_000  # traced labels whose posterior is not out: the oldest are dropped
MOST_WITH_VOTES = 100  # traced labels of a group, for each partition of tasks


class Span(NamedTuple):
    """What this instance did for a traced label: from taking it on, in nanoseconds."""

    name: str
    traceparent: bytes
    begun: int


class SpanExporter(Protocol):
    """Takes spans that end now."""

    def export(self, spans: Sequence[Span]) -> None:
        """Export them; must not wait."""

    def flush(self) -> None:
        """Send what is not sent yet: the process ends."""


class NoExport:
    """Traces are carried on, and no spans exported."""

    def export(self, spans: Sequence[Span]) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""


class Traces:
    """The traces of labels whose posteriors or votes are not published yet."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.pending: dict[int, Span] = {}  # by task: the last label's
        self.away: dict[int, list[tuple[TracedTask, Span]]] = {}  # by partition of tasks

    def took(self, records: Sequence[ConsumerRecord], rows: Rows) -> None:
        """Labels were taken; `rows` are those that count."""
        traced = [record for record in records if record.headers]
        if not traced:
            return
        rows = rows.only(rows.answers != SKIP)
        tasks = dict(zip(rows.offsets.tolist(), rows.tasks.tolist(), strict=True))
        for record in traced:
            traceparent = traceparent_of(record.headers)
            task = tasks.get(record.offset)
            if traceparent is not None and task is not None:
                self._add(task, traceparent)

    def _add(self, task: int, traceparent: bytes) -> None:
        home = int(self.crowd.task.home[task])
        if self.crowd.has_tasks_of[home]:
            self.follow(task, traceparent)
            return
        away = self.away.setdefault(home, [])
        if len(away) < MOST_WITH_VOTES:
            one = TracedTask(self.crowd.tasks.names[task], traceparent)
            away.append((one, Span("sbic.vote", traceparent, time_ns())))

    def follow(self, task: int, traceparent: bytes) -> None:
        """The next posterior of an own task carries this."""
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
                    key, value, timestamp, headers = rows[place]
                    header = (TRACEPARENT, span.traceparent)
                    rows[place] = (key, value, timestamp, [*headers, header])
                    spans.append(span)
        return spans

    def mark_votes(self, home: int, rows: list[Row]) -> list[Span]:
        """Add the traces of labels on tasks of a partition elsewhere to the last of its votes."""
        away = self.away.pop(home, [])
        if not (away and rows):
            return []
        key, value, timestamp, headers = rows[-1]
        rows[-1] = (key, value, timestamp, [*headers, *vote_headers([one for one, _ in away])])
        return [span for _, span in away]
