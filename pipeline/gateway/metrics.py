"""The Prometheus metrics of a gateway: base units, and no id as a label value."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """All metrics of a gateway, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._requests = Counter(
            "sbic_gateway_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sbic_gateway_request_seconds",
            "Seconds from a request's headers to its answer, by route.",
            ["route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._sent = Counter(
            "sbic_gateway_records",
            "Records that Kafka has acknowledged, by topic.",
            ["kind"],
            registry=registry,
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def sent(self, kind: str, records: int) -> None:
        """Count acknowledged labels, tasks or requests."""
        self._sent.labels(kind).inc(records)

    def connections(self, count: Callable[[], float]) -> None:
        """Where the number of open connections comes from."""
        gauge = Gauge("sbic_gateway_connections", "Connections open.", registry=self.registry)
        gauge.set_function(count)
