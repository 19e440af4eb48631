"""The Faust app of an instance: agents on topics, tables with changelogs, and services."""

import asyncio
import logging
from collections.abc import Iterator
from time import monotonic, time
from typing import Any, Protocol

from faust.types import StreamT

from pipeline.agents.components import Components
from pipeline.agents.project_watch import ProjectWatch
from pipeline.agents.telemetry.collectors import Lag
from pipeline.agents.telemetry.gauges import add_gauges
from pipeline.agents.telemetry.readiness_log import ReadinessLog
from pipeline.agents.telemetry.task_survey import TaskSurvey
from pipeline.agents.telemetry.web import Web
from pipeline.batched.app import BatchedApp
from pipeline.batched.batch import Batch
from pipeline.batched.credentials import credentials_of
from pipeline.batched.kafka_errors import KafkaErrors
from pipeline.batched.table import BatchTable, PartitionedState
from pipeline.kafka.options import client_options
from pipeline.project.revision import Revision
from pipeline.settings import Settings
from pipeline.stages.survey import Surveyor

log = logging.getLogger("sbic")


class Agent(Protocol):
    """A loop over batches."""

    name: str

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take batches until the app stops."""


class PipelineApp(BatchedApp):
    """One instance of the pipeline; it owns the same partitions of all topics."""

    def __init__(self, settings: Settings, revision: Revision) -> None:
        super().__init__(
            settings.prefix,
            broker=[f"batched://{server}" for server in settings.bootstrap_servers],
            broker_credentials=credentials_of(client_options(settings)),
            topic_partitions=settings.partitions,
            session_seconds=settings.session_seconds,
            consumer_group_instance_id=settings.instance_id,
        )
        self.settings = settings
        self.rebalance_started = monotonic()
        self.kafka_errors = KafkaErrors()
        self.kafka_errors.watch()
        self.components = parts = Components(settings, self)
        self._add_agents()
        why_not_ready = parts.readiness.why_not_ready
        self.web_port = Web(
            settings.web_host, settings.web_port, parts.metrics.registry, why_not_ready
        )
        self.readiness_log = ReadinessLog(why_not_ready)
        self.project_watch = ProjectWatch(settings, revision)
        surveyor = Surveyor(parts.crowd, settings.block_below, settings.block_after)
        self.task_survey = TaskSurvey(surveyor)
        add_gauges(self)

    def _add_agents(self) -> None:
        parts, topics = self.components, self.components.topics
        for groups in (parts.publisher.groups, parts.rejects.groups, parts.policy_agent.groups):
            self.add_publisher(groups)
        self._add_agent(parts.policy_agent, topics.requests.name)
        self._add_agent(parts.worker_agent, topics.labels.name)
        self._add_table("answers", topics.answers.name, parts.worker_agent)
        self._add_agent(parts.task_agent, topics.votes.name, topics.tasks.name)
        self._add_table("tasks", topics.evidence.name, parts.task_agent)

    def _add_agent(self, agent: Agent, *topics: str) -> None:
        async def run(stream: StreamT[Any]) -> None:
            await agent.run(stream)

        self.agent(self.topic(*topics), name=agent.name)(run)

    def _add_table(self, name: str, changelog: str, states: PartitionedState) -> None:
        self.tables.add(BatchTable(self, name, self.topic(changelog), states))

    async def on_first_start(self) -> None:
        """Serve the web port, then read estimates and assignments; only then join the group."""
        await super().on_first_start()
        parts = self.components
        services = [
            self.web_port,
            self.readiness_log,
            parts.dead_letter_log,
            self.task_survey,
            self.project_watch,
            parts.asker,
            parts.estimates_follower,
            parts.assignments_follower,
            *([parts.settler] if parts.crowd.engine.is_settled else []),
            parts.broker_watch,
        ]
        for service in services:
            await self.add_runtime_dependency(service)

    async def leave(self) -> None:
        """Leave the group, then export the remaining spans."""
        await super().leave()
        await asyncio.to_thread(self.components.spans.flush)

    def lags_in_seconds(self) -> Iterator[Lag]:
        """Return how far each partition of labels, votes, tasks and requests lags."""
        for lag in self.lags():
            seconds = 0.0
            if lag.records and lag.since:
                seconds = max(0.0, time() - lag.since / 1000)
            yield Lag(lag.topic, lag.partition, lag.records, seconds)

    def on_rebalance_start(self) -> None:
        """Log and count the rebalance."""
        self.rebalance_started = monotonic()
        self.components.metrics.rebalances.inc()
        log.info("rebalance: finishing partitions %s first", self._partitions)
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """Log that all state is recovered."""
        super().on_rebalance_end()
        seconds = monotonic() - self.rebalance_started
        parts = self.components
        parts.metrics.rebalanced(seconds)
        if restored := self.recovery.progress.total:
            log.info("recovered %d records", restored)
        log.info(
            "ready after %.1f s: partitions %s of %d; %d tasks, %d workers; http://%s:%d/metrics",
            seconds,
            self._partitions,
            self.settings.partitions,
            len(parts.crowd.tasks),
            parts.worker_stage.workers,
            self.settings.web_host,
            self.web_port.port,
        )

    @property
    def _partitions(self) -> list[int]:
        return sorted(self.components.task_stage.partitions)
