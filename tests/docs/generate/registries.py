"""The metrics of an instance and of a gateway that are not running.

A metric without a value does not show which labels it has, so each that has none before the first
record or request gets one here.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from pipeline.agents.app import PipelineApp
from pipeline.agents.telemetry.collectors import Lag
from pipeline.gateway.metrics import Metrics as GatewayMetrics
from pipeline.project.revision import FIRST
from pipeline.settings import Settings


class LaggingApp(PipelineApp):
    """An instance that reads one partition."""

    def lags(self) -> Iterator[Lag]:
        """No record waits there."""
        yield Lag("sbic.labels", 0, 0, 0.0)


def instance_registry() -> CollectorRegistry:
    """All metrics that an instance can have; that of the budget needs one."""
    return LaggingApp(Settings(budget=1000), FIRST).metrics.registry


def gateway_registry() -> CollectorRegistry:
    """All metrics of a gateway."""
    metrics = GatewayMetrics()
    metrics.answered("/labels", 200, 0.001)
    for kind in ("labels", "tasks", "requests"):
        metrics.sent(kind, 0)
    metrics.connections(lambda: 0)
    return metrics.registry
