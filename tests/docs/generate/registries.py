"""The metrics of an instance, a gateway, a sink and a push that are not running.

A metric without a value does not show which labels it has, so each that has none before the first
record or request gets one here.
"""

from prometheus_client import CollectorRegistry

from sbic.gateway.access import GatewayMetrics as GatewayMetrics
from sbic.integrations.label_studio_push import PushMetrics
from sbic.integrations.sink import SinkMetrics
from sbic.project.revision import FIRST
from sbic.project.settings import Settings
from sbic.runtime.app import PipelineApp
from sbic.runtime.metrics import Lag, LagCollector
from sbic.wire.seal import KEY_BYTES, Seal


def instance_registries() -> list[CollectorRegistry]:
    """All metrics of an instance with a budget, and its lags as if it read one partition."""
    lags = CollectorRegistry()
    lags.register(LagCollector(lambda: [Lag("sbic.labels", 0, 0, 0.0)]))
    return [
        PipelineApp(Settings(budget=1000), FIRST, Seal(bytes(KEY_BYTES))).web_port.registry,
        lags,
    ]


def gateway_registries() -> list[CollectorRegistry]:
    """All metrics of a gateway that has answered a request."""
    metrics = GatewayMetrics()
    metrics.answered("/labels", 200, 0.001)
    for kind in ("labels", "tasks", "workers", "requests"):
        metrics.sent(kind, 0)
    metrics.connections(lambda: 0)
    return [metrics.registry]


def sink_registries() -> list[CollectorRegistry]:
    """All metrics of a sink."""
    return [SinkMetrics().registry]


def push_registries() -> list[CollectorRegistry]:
    """All metrics of a push that follows."""
    return [PushMetrics().registry]
