"""Exports spans of traced labels by OpenTelemetry."""

from collections.abc import Sequence
from time import time_ns

from sbic import __version__
from sbic.instance.publication import Span
from sbic.project.settings import Settings
from sbic.runtime.faust.stop import CannotStart


class SpanExporter:
    """Exports no spans; traces are carried on all the same."""

    def export(self, spans: Sequence[Span]) -> None:
        """Export spans that end now, without waiting."""

    def flush(self) -> None:
        """Send all spans before the process ends."""


# Exports spans by OpenTelemetry, if the extra `otel` is installed and `SBIC_OTEL` is true.
#
# OpenTelemetry's own variables configure the destination and the sampling:
# `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`. Only labels that carry a trace have spans.


FLUSH_MS = 1000


def exporter_of(settings: Settings) -> SpanExporter:
    """Return the exporter that the settings ask for."""
    if not settings.otel:
        return SpanExporter()
    try:
        return OtelExport(settings)
    except ImportError:
        raise CannotStart(
            "SBIC_OTEL needs the extra otel: pip install 'sbic[otel]', or leave it out"
        ) from None


class OtelExport(SpanExporter):
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
