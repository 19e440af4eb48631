"""Puts an instance together: agents on topics, tables with changelogs, the task view, the web."""

import asyncio
import logging
from collections.abc import Iterator
from time import monotonic, time
from typing import Any, cast

from aiokafka import AIOKafkaConsumer
from faust.types import StreamT

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.broker_watch import Connection
from pipeline.agents.ends import EndsAsker
from pipeline.agents.estimates_follower import EstimatesFollower
from pipeline.agents.own_estimates import OwnEstimates
from pipeline.agents.policy_agent import PolicyAgent
from pipeline.agents.project_watch import ProjectWatch
from pipeline.agents.publisher import Publisher
from pipeline.agents.redirector import Redirector
from pipeline.agents.rejects import Rejects
from pipeline.agents.settler import Settler
from pipeline.agents.task_agent import TaskAgent
from pipeline.agents.telemetry.collectors import Lag
from pipeline.agents.telemetry.dead_letter_log import DeadLetterLog
from pipeline.agents.telemetry.gauges import add_gauges
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.agents.telemetry.otel import exporter_of
from pipeline.agents.telemetry.readiness_log import ReadinessLog
from pipeline.agents.telemetry.task_survey import TaskSurvey
from pipeline.agents.telemetry.web import Web
from pipeline.agents.worker_agent import WorkerAgent
from pipeline.batched.app import BatchedApp
from pipeline.batched.consumer import BatchConsumer
from pipeline.batched.credentials import credentials_of
from pipeline.batched.fence import Fence
from pipeline.batched.kafka_errors import KafkaErrors
from pipeline.batched.producer import BatchProducer
from pipeline.batched.recovery import BatchRecovery, BatchTableManager
from pipeline.batched.table import BatchTable
from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import Engine
from pipeline.kafka.errors import Denied
from pipeline.kafka.options import client_options
from pipeline.kafka.probe import why_unreachable
from pipeline.project.revision import Revision
from pipeline.settings import Settings
from pipeline.stages.assignment_stage import AssignmentStage, Rules
from pipeline.stages.crowd import Crowd
from pipeline.stages.exchange import Exchange
from pipeline.stages.judge import Ends, Judge
from pipeline.stages.leases import Leases
from pipeline.stages.stop_rules import StopRules
from pipeline.stages.survey import Surveyor
from pipeline.stages.task_stage import TaskStage
from pipeline.stages.worker_stage import WorkerStage
from pipeline.topics import Topics

log = logging.getLogger("sbic")


class PipelineApp(BatchedApp):
    """One instance of the pipeline; partition p of all topics belongs to one instance.

    labels ──▶ WorkerAgent ──▶ votes ──▶ TaskAgent ◀── tasks
                (answers)                (evidence)
                    └──────▶ Crowd ◀─────────┘────▶ Publisher ──▶ posteriors, workers
    requests ──▶ PolicyAgent ──┘ │ ▲                    └──────▶ estimates ──▶ other instances
                    └──▶ assignments └── EstimatesFollower ◀── their estimates
    """

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
        names = Topics(settings)
        prior = Prior(settings.alpha, settings.beta, settings.prior)
        engine = Engine(
            settings.chosen_algorithm,
            classes=len(settings.crowd_classes),
            prior=prior,
            class_prior=settings.chosen_class_prior,
            tolerance=settings.settle_tolerance,
        )
        self.crowd = Crowd(engine, settings.crowd_classes, settings.partitions)
        self.metrics = Metrics(settings.prefix)
        self.kafka_errors = KafkaErrors()
        self.kafka_errors.watch()
        rules = StopRules(settings.stop_confidence, settings.stop_labels, settings.budget)
        ends = Ends(settings.partitions)
        self.asker = EndsAsker(settings, ends)
        judge = Judge(self.crowd, ends)
        self.worker_stage = WorkerStage(self.crowd, judge, settings.repeats)
        self.task_stage = TaskStage(self.crowd, judge, rules)
        exchange = Exchange(self.task_stage)
        self.dead_letter_log = DeadLetterLog()
        self.spans = exporter_of(settings)
        self.redirector = Redirector(names, self.metrics, self.dead_letter_log)
        self.rejects = Rejects(self.redirector, self._producer_of("rejects"))
        self.publisher = Publisher(
            self.task_stage,
            exchange,
            names,
            self._producer_of("crowd", self.fence),
            self.metrics,
            self.redirector,
            self._make_void,
            self.spans,
        )
        self.publishers += [self.publisher.groups, self.rejects.groups]
        own = OwnEstimates(self.publisher, self.rejects, self._is_owner_now)
        self.publisher.groups.writers.append(own.wrote)
        self.follower = EstimatesFollower(settings, exchange, own, self.rejects)
        self.follower.listeners.append(self.publisher.check_budget)
        policy_agent = self._add_policy(names, prior)
        worker_agent = WorkerAgent(
            settings, self.worker_stage, self.publisher, policy_agent, self.asker, self.rejects
        )
        self._add(worker_agent, [names.labels.name], "answers", names.answers.name)
        task_agent = TaskAgent(
            self.task_stage, self.publisher, self.follower, self.asker, self.rejects
        )
        inputs = [names.votes.name, names.tasks.name]
        self._add(task_agent, inputs, "tasks", names.evidence.name)
        self.settler = Settler(self.publisher, self._is_caught_up)
        self.web_port = Web(
            settings.web_host, settings.web_port, self.metrics.registry, self.why_not_ready
        )
        self.readiness_log = ReadinessLog(self.why_not_ready)
        self.project_watch = ProjectWatch(settings, revision)
        servers = ", ".join(settings.bootstrap_servers)
        self.connection = Connection(servers, self._kafka_consumer, self._why_denied)
        surveyor = Surveyor(self.crowd, settings.block_below, settings.block_after)
        self.task_survey = TaskSurvey(surveyor)
        add_gauges(self)

    def _add(
        self, agent: WorkerAgent | TaskAgent, topics: list[str], table: str, changelog: str
    ) -> None:
        async def run(stream: StreamT[Any]) -> None:
            await agent.run(stream)

        self.agent(self.topic(*topics), name=agent.name)(run)
        made = BatchTable(self, table, self.topic(changelog), agent)
        self.tables.add(made)
        self.publisher.groups.writers.append(made.wrote)

    def _add_policy(self, names: Topics, prior: Prior) -> PolicyAgent:
        settings = self.settings
        rules = Rules(
            settings.policy,
            settings.seed,
            round(1000 * settings.lease_seconds),
            settings.assign_on_label,
            settings.gold_rate,
            settings.block_below,
            settings.block_after,
            settings.budget,
        )
        self.leases = Leases()
        self.assignments_follower = AssignmentsFollower(
            settings, self.leases, self.worker_stage.judge, self.asker, self.rejects
        )
        agent = PolicyAgent(
            AssignmentStage(self.worker_stage, self.leases, rules, prior),
            self.assignments_follower,
            names,
            self._producer_of("policy", self.fence),
            self.metrics,
            self.redirector,
        )

        async def run(stream: StreamT[Any]) -> None:
            await agent.run(stream)

        self.agent(self.topic(names.requests.name), name=agent.name)(run)
        self.publishers.append(agent.groups)
        return agent

    def _producer_of(self, agent: str, fence: Fence | None = None) -> BatchProducer:
        settings = self.settings
        return BatchProducer(client_options(settings), f"{settings.prefix}-{agent}", fence)

    async def on_first_start(self) -> None:
        """Serve the web port, then learn of tasks and leases; only then join the group."""
        await super().on_first_start()
        await self.add_runtime_dependency(self.web_port)
        await self.add_runtime_dependency(self.readiness_log)
        await self.add_runtime_dependency(self.dead_letter_log)
        await self.add_runtime_dependency(self.task_survey)
        await self.add_runtime_dependency(self.project_watch)
        await self.add_runtime_dependency(self.asker)
        await self.add_runtime_dependency(self.follower)
        await self.add_runtime_dependency(self.assignments_follower)
        if self.crowd.engine.is_settled:
            await self.add_runtime_dependency(self.settler)
        await self.add_runtime_dependency(self.connection)

    async def leave(self) -> None:
        """Leave the group, then send the spans that are left."""
        await super().leave()
        await asyncio.to_thread(self.spans.flush)

    def why_not_ready(self) -> str | None:
        """What an instance still has to do before it deals with labels; nothing when ready."""
        if not self.assignments_follower.caught_up:
            return f"reading assignments: {self.assignments_follower.progress}"
        if self.recovery.in_recovery:
            return f"recovering: {self.recovery.progress}"
        if self.rebalancing or not self.tables.actives_ready:
            if not self.recovery.is_restored:
                return "joining the group"
            missing = self.follower.exchange.missing
            return (
                f"hearing of partitions {missing}" if missing else "finishing what was left undone"
            )
        if self.connection.lost:
            return "Kafka does not answer"
        return None

    @property
    def recovery(self) -> BatchRecovery:
        """The recovery of the tables."""
        return cast(BatchTableManager, self.tables).recovery

    def _make_void(self) -> None:
        cast(BatchTableManager, self.tables).is_void = True

    def _is_owner_now(self) -> bool:
        """Whether nobody else can have what this instance has."""
        return not (self.rebalancing or self.fence.is_overdue) and self.tables.actives_ready

    @property
    def expulsions(self) -> int:
        """How often Kafka has put this instance out of the group."""
        consumer = cast(BatchConsumer, self._consumer)
        return 0 if consumer is None else consumer.expulsions

    def _kafka_consumer(self) -> AIOKafkaConsumer | None:
        return cast(BatchConsumer, self._consumer)._thread._consumer if self._consumer else None

    async def _why_denied(self) -> str | None:
        why = await why_unreachable(self.settings)
        return str(why) if isinstance(why, Denied) else None

    def lags(self) -> Iterator[Lag]:
        """How far each partition of labels and votes is behind."""
        if self._consumer is None:
            return
        consumer = cast(BatchConsumer, self._consumer)
        for topic, partition, records, since in consumer.lag():
            seconds = max(0.0, time() - since / 1000) if records and since else 0.0
            yield Lag(topic, partition, records, seconds)

    def _is_caught_up(self) -> bool:
        return (
            self.why_not_ready() is None
            and not self.follower.lag()
            and not any(lag.records for lag in self.lags())
        )

    def on_rebalance_start(self) -> None:
        """Say so, and remember when."""
        self.rebalance_started = monotonic()
        self.metrics.rebalances.inc()
        log.info("rebalance: partitions %s are finished first", sorted(self.task_stage.partitions))
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """All state is recovered."""
        super().on_rebalance_end()
        seconds = monotonic() - self.rebalance_started
        self.metrics.rebalanced(seconds)
        if restored := self.recovery.progress.total:
            log.info("recovered %d records", restored)
        log.info(
            "ready after %.1f s: partitions %s of %d; %d tasks, %d workers; http://%s:%d/metrics",
            seconds,
            sorted(self.task_stage.partitions),
            self.settings.partitions,
            len(self.crowd.tasks),
            self.worker_stage.workers,
            self.settings.web_host,
            self.web_port.port,
        )
