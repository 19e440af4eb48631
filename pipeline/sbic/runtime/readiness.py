"""Whether an instance is ready, and the web port that tells: `/healthz`, `/readyz`, `/metrics`."""

import logging
from collections.abc import Awaitable, Callable
from errno import EADDRINUSE
from typing import Any

from aiohttp import web
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from sbic.kafka.admin import LabelsKept, labels_kept, wrong_labels_config
from sbic.kafka.connect import AdminClient, new_consumer
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import committed_by
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.consumer import Connections
from sbic.runtime.faust.stop import CannotStart
from sbic.runtime.followers import AssignmentsFollower, EstimatesFollower

log = logging.getLogger("sbic")


class BrokerWatch(Service):
    """Watches the connections of the group's consumer, which its heartbeats keep in use.

    `why_denied` returns why Kafka refuses this client, or None if it just does not answer.
    """

    def __init__(
        self,
        servers: str,
        connections: Callable[[], Connections | None],
        why_denied: Callable[[], Awaitable[str | None]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servers = servers
        self.connections = connections
        self.why_denied = why_denied
        self.logged: str | None = None
        self.is_lost = False
        self.was_connected = False

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(1.0)
            if not self.should_stop:
                self.look()
                await self.explain()

    async def explain(self) -> None:
        """Log once why Kafka refuses this client, if it does."""
        why = await self.why_denied() if self.is_lost else None
        if why is not None and why != self.logged:
            log.warning("%s; trying again until that is fixed", why)
        self.logged = why

    def look(self) -> None:
        """Log a lost or regained connection; a consumer with partitions was connected before."""
        connections = self.connections()
        if connections is None:
            return
        is_connected, has_partitions = connections
        self.was_connected = self.was_connected or is_connected or has_partitions
        is_lost = self.was_connected and not is_connected
        if is_lost and not self.is_lost:
            log.warning("Kafka at %s does not answer; trying again until it does", self.servers)
        elif self.is_lost and not is_lost:
            log.info("Kafka answers again")
        self.is_lost = is_lost


# The web port: `/healthz`, `/readyz` and `/metrics`, for supervisors and Prometheus.


class Web(Service):
    """Serves the web port; `why_not_ready` returns None when the instance is ready."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        why_not_ready: Callable[[], str | None],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.host = host
        self.port = port
        self.registry = registry
        self.why_not_ready = why_not_ready

    async def on_start(self) -> None:
        """Listen; port 0 chooses a free port, which is then in `port`."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        try:
            await web.TCPSite(self.runner, self.host, self.port).start()
        except OSError as error:
            raise CannotStart(self._why_not(error)) from error
        self.port = self.runner.addresses[0][1]

    def _why_not(self, error: OSError) -> str:
        if error.errno == EADDRINUSE:
            return f"port {self.port} is taken; choose another with --web-port, or 0 for any"
        return f"cannot listen on {self.host}, port {self.port}: {error.strerror or error}"

    async def on_stop(self) -> None:
        await self.runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        # an unhealthy instance ends its process: one that answers is healthy
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        why_not = self.why_not_ready()
        if why_not is None:
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"not ready: {why_not}\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


class Readiness:
    """Derives readiness from the app's assignment, its recovery and the followers."""

    def __init__(
        self,
        app: BatchedApp,
        assignments: AssignmentsFollower,
        estimates: EstimatesFollower,
        broker_watch: BrokerWatch,
    ) -> None:
        self.app = app
        self.assignments = assignments
        self.estimates = estimates
        self.broker_watch = broker_watch

    def why_not_ready(self) -> str | None:
        """Return what an instance has to do before it takes labels; None when it is ready."""
        app = self.app
        if not self.assignments.caught_up:
            return f"reading assignments: {self.assignments.progress}"
        if app.recovery.in_recovery:
            return f"recovering: {app.recovery.progress}"
        if app.rebalancing or not app.tables.actives_ready:
            if not app.recovery.is_restored:
                return "joining the group"
            missing = self.estimates.exchange.missing
            if missing:
                return f"waiting for the estimates of partitions {missing}"
            return "completing what the last owner began"
        if self.broker_watch.is_lost:
            return "Kafka does not answer"
        return None

    def is_caught_up(self) -> bool:
        """Whether the instance is ready and has no lag."""
        return (
            self.why_not_ready() is None
            and not self.estimates.lag()
            and not any(lag.records for lag in self.app.lags())
        )


# Warns when Kafka removes labels that the project keeps.


LABELS_SECONDS = 10.0


class LabelsWatch(Service):
    """Compares retention, compaction and start of the labels topic with what the project keeps.

    Logs each kind of problem when it appears; the metrics have the numbers.
    """

    def __init__(self, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.topic = Topics(settings).labels
        self.partitions = [TopicPartition(self.topic.name, p) for p in range(settings.partitions)]
        self.kept = LabelsKept(self.topic.name)

    async def on_start(self) -> None:
        """Look once before labels are taken."""
        self._admin = AdminClient(self.settings)
        self._asking = new_consumer(self.settings)
        await self._admin.start()
        await self._asking.start()
        await self._look()

    async def on_stop(self) -> None:
        await self._asking.stop()
        await self._admin.stop()

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(LABELS_SECONDS)
            if not self.should_stop:
                await self._look()

    async def _look(self) -> None:
        try:
            async with self._admin.answering() as client:
                wrong = await wrong_labels_config(client, self.topic)
                committed = await committed_by(client, self.settings.prefix)
            starts = await self._asking.beginning_offsets(self.partitions)
        except (ClusterError, KafkaError):
            return  # not available: `BrokerWatch` logs it
        before, kept = self.kept, labels_kept(self.topic, wrong, starts, committed)
        self.kept = kept._replace(uncounted=max(kept.uncounted, before.uncounted))
        is_new = (
            self.kept.wrong != before.wrong,
            self.kept.expired > 0 and not before.expired,
            self.kept.uncounted > before.uncounted,
        )
        if any(is_new):
            for line in self.kept.warnings:
                log.warning("%s", line)
