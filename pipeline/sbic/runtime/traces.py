"""Carries the traces of labels to their posteriors, and exports spans by OpenTelemetry."""

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import NamedTuple, Protocol

from aiokafka import ConsumerRecord

from sbic import __version__
from sbic.classes import SKIP
from sbic.engine.labels import Ints
from sbic.instance.crowd import Crowd, Rows
from sbic.project.settings import Settings
from sbic.runtime.faust.producer import Header, Row
from sbic.runtime.faust.stop import CannotStart
from sbic.wire.traces import TRACEPARENT, TracedTask, traceparent_of, vote_headers

MOST_PENDING = 10_000  # traced labels whose posterior is not published: the oldest are dropped
MOST_WITH_VOTES = 100  # traced labels of a group, for each partition of tasks


class Span(NamedTuple):
    """The work of this instance on a traced label, which began at `begun`, in nanoseconds."""

    name: str
    traceparent: bytes
    begun: int


class SpanExporter(Protocol):
    """Exports spans."""

    def export(self, spans: Sequence[Span]) -> None:
        """Export spans that end now, without waiting."""

    def flush(self) -> None:
        """Send all spans before the process ends."""


class NoExport:
    """Exports no spans; traces are carried on all the same."""

    def export(self, spans: Sequence[Span]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


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

    def took(self, parts: Mapping[int, Sequence[ConsumerRecord]], rows: Rows) -> None:
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
        if len(away) < MOST_WITH_VOTES:
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
                    rows[place] = _with(rows[place], (TRACEPARENT, span.traceparent))
                    spans.append(span)
        return spans

    def mark_votes(self, home: int, rows: list[Row]) -> list[Span]:
        """Add the traces of labels on another instance's tasks to the last record of votes."""
        away = self.away.pop(home, [])
        if not (away and rows):
            return []
        rows[-1] = _with(rows[-1], *vote_headers([vote.task for vote in away]))
        return [vote.span for vote in away]


def _with(row: Row, *headers: Header) -> Row:
    """Return the row with further headers."""
    return row._replace(headers=[*row.headers, *headers])


# Exports spans by OpenTelemetry, if the extra `otel` is installed and `SBIC_OTEL` is true.
#
# OpenTelemetry's own variables configure the destination and the sampling:
# `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`. Only labels that carry a trace have spans.


FLUSH_MS = 1000


def exporter_of(settings: Settings) -> SpanExporter:
    """Return the exporter that the settings ask for."""
    if not settings.otel:
        return NoExport()
    try:
        return OtelExport(settings)
    except ImportError:
        raise CannotStart(
            "SBIC_OTEL needs the extra otel: pip install 'sbic[otel]', or leave it out"
        ) from None


class OtelExport:
    """Passes spans to OpenTelemetry's SDK, which sends them from a separate thread."""

    def __init__(self, settings: Settings) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        attributes = {"service.name": "sbic", "service.version": __version__}
        if settings.instance_id is not None:
            attributes["service.instance.id"] = settings.instance_id
        self.provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.provider.get_tracer("sbic", __version__)
        self.context_of = TraceContextTextMapPropagator().extract
        self.kind = SpanKind.CONSUMER
        self.attributes = {"messaging.system": "kafka", "sbic.prefix": settings.prefix}

    def export(self, spans: Sequence[Span]) -> None:
        """Pass spans that end now to the SDK."""
        now = time_ns()
        for name, traceparent, begun in spans:
            parent = self.context_of({"traceparent": traceparent.decode()})
            self.tracer.start_span(
                name, parent, self.kind, attributes=self.attributes, start_time=begun
            ).end(now)

    def flush(self) -> None:
        """Send the remaining spans, for up to a second."""
        self.provider.force_flush(FLUSH_MS)
