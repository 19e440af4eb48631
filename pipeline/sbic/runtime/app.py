"""The Faust app of an instance: its objects, agents on topics, tables and services."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from math import nan
from time import monotonic, time
from typing import Any, Protocol

from aiokafka import ConsumerRecord
from aiokafka.errors import KafkaError
from faust.types import StreamT
from mode import Service

from sbic.engine.engine import Engine
from sbic.engine.labels import Prior
from sbic.instance.crowd import Crowd
from sbic.instance.instance import Instance
from sbic.instance.leases import Leases
from sbic.instance.publication import TopicNames
from sbic.instance.requests import AssignmentStage, Rules
from sbic.instance.survey import Surveyor
from sbic.instance.tasks import StopRules, TaskStage
from sbic.instance.workers import WorkerStage
from sbic.kafka.connect import client_options, why_unreachable
from sbic.kafka.errors import ClusterError, Denied
from sbic.kafka.protocol import TopicIds
from sbic.project.added import AddedPartitions, check_partitions_on
from sbic.project.opening import ProjectLog, ReplacedTopics, compare_topics, read_project
from sbic.project.revision import Revision
from sbic.project.settings import PROJECT_SETTINGS, Settings
from sbic.project.topics import Topics
from sbic.runtime.agents import PolicyAgent, Settler, TaskAgent, WorkerAgent
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.consumer import Batch, credentials_of
from sbic.runtime.faust.producer import BatchProducer, Fence
from sbic.runtime.faust.recovery import BatchTable, PartitionedState
from sbic.runtime.faust.stop import NOT_ALLOWED, KafkaErrors
from sbic.runtime.followers import AssignmentsFollower, EstimatesFollower
from sbic.runtime.logs import DeadLetterLog, ReadinessLog
from sbic.runtime.metrics import Lag, Metrics, TaskSurvey, add_gauges
from sbic.runtime.publisher import MeteredRedirector, Publisher, Rejects
from sbic.runtime.readiness import BrokerWatch, LabelsWatch, Readiness, Web
from sbic.runtime.stuck import StuckWatch
from sbic.runtime.traces import exporter_of
from sbic.wire.seal import Seal
from sbic.wire.workers import UNITS, units_of

# The objects of an instance, each constructed with everything that it needs.
#
# labels ──▶ WorkerAgent ──▶ votes ──▶ TaskAgent ◀── tasks, roster
#             (answers)                (evidence)
#                 └──────▶ Crowd ◀─────────┘────▶ Publisher ──▶ posteriors, workers
# requests ──▶ PolicyAgent ──┘ │ ▲                    └──────▶ estimates ──▶ other instances
#                 └──▶ assignments └── EstimatesFollower ◀── their estimates


class Components:
    """Constructs the stages, the agents around them, and what they share.

    `app` provides what Faust knows: the assignment, the consumer and the recovery.
    """

    def __init__(self, settings: Settings, revision: Revision, seal: Seal, app: BatchedApp) -> None:
        self.settings = settings
        self.revision = revision
        self.seal = seal
        self.topics = Topics(settings)
        self.metrics = Metrics(settings.prefix)
        self.dead_letter_log = DeadLetterLog()
        self.spans = exporter_of(settings)
        self._construct_stages()
        redirector = MeteredRedirector(self.topics, seal, self.metrics, self.dead_letter_log)
        self.rejects = Rejects(redirector, self._producer("rejects"))
        self.publisher = Publisher(
            self.instance,
            self._producer("crowd", app.fence),
            self.metrics,
            redirector,
            app.mark_stale,
            self.spans,
            [app.wrote],
        )
        self.estimates_follower = EstimatesFollower(settings, self.instance, self.rejects)
        self.assignments_follower = AssignmentsFollower(settings, self.leases, seal, self.rejects)
        self._construct_agents(app.fence, redirector)
        servers = ", ".join(settings.bootstrap_servers)
        self.broker_watch = BrokerWatch(servers, app.connections, self._why_denied)
        self.stuck_watch = StuckWatch(
            settings,
            app,
            lambda: self.readiness.why_waiting(),
            self.assignments_follower,
            self.estimates_follower,
        )
        self.readiness = Readiness(
            app,
            self.assignments_follower,
            self.estimates_follower,
            self.broker_watch,
            lambda: self.stuck_watch.why,
        )
        self.settler = Settler(self.publisher, self.readiness.is_caught_up)

    def _construct_stages(self) -> None:
        settings = self.settings
        self.prior = Prior(settings.alpha, settings.beta, settings.prior)
        engine = Engine(
            settings.chosen_algorithm,
            classes=len(settings.crowd_classes),
            prior=self.prior,
            class_prior=settings.chosen_class_prior,
            tolerance=settings.settle_tolerance,
            is_ordered=settings.crowd_classes.is_ordered,
        )
        self.crowd = Crowd(engine, settings.crowd_classes, settings.partitions)
        self.worker_stage = WorkerStage(self.crowd, self.seal, settings.repeats)
        self.task_stage = TaskStage(self.crowd, stop_rules_of(settings))
        names = TopicNames(*(getattr(self.topics, name).name for name in TopicNames._fields))
        self.instance: Instance[ConsumerRecord] = Instance(
            self.worker_stage,
            self.task_stage,
            self.seal,
            names,
            lambda seconds: self.publisher.wake(seconds),
            is_flat=settings.flat,
            forwarded=self.revision.forwarded_before,
        )
        self.leases = Leases()

    def _construct_agents(self, fence: Fence, redirector: MeteredRedirector) -> None:
        self.surveyor = Surveyor(
            self.task_stage, self.settings.block_below, self.settings.block_after
        )
        self.assignment_stage = AssignmentStage(
            self.worker_stage, self.leases, rules_of(self.settings), self.prior
        )
        self.policy_agent = PolicyAgent(
            self.assignment_stage,
            self.assignments_follower,
            self.topics,
            self._producer("policy", fence),
            self.metrics,
            redirector,
        )
        self.worker_agent = WorkerAgent(
            self.settings,
            self.instance,
            self.publisher,
            self.policy_agent,
            self.rejects,
        )
        self.task_agent = TaskAgent(
            self.settings,
            self.instance,
            self.publisher,
            self.estimates_follower,
            self.rejects,
        )

    def follow(self, settings: Settings) -> None:
        """Go on with other settings of the project, of those that change at once."""
        self.settings = settings
        self.assignment_stage.follow(rules_of(settings))
        self.surveyor.follow(settings.block_below, settings.block_after)
        self.instance.follow(stop_rules_of(settings))

    @property
    def budget_left(self) -> float:
        """Labels of all instances until the budget is spent; NaN if there is none."""
        budget = self.settings.budget
        return nan if budget is None else max(0, budget - self.crowd.labels)

    @property
    def spent(self) -> float:
        """What all labels cost so far, at the prices in the roster."""
        return self.crowd.spent / UNITS

    @property
    def cost_left(self) -> float:
        """Money until the budget is spent; NaN if there is none."""
        budget = self.settings.budget_cost
        return nan if budget is None else max(0.0, budget - self.spent)

    def _producer(self, name: str, fence: Fence | None = None) -> BatchProducer:
        settings = self.settings
        return BatchProducer(settings, f"{settings.prefix}-{name}", fence)

    async def _why_denied(self) -> str | None:
        why = await why_unreachable(self.settings)
        return str(why) if isinstance(why, Denied) else None


def stop_rules_of(settings: Settings) -> StopRules:
    """Return the rules that close tasks."""
    return StopRules(
        settings.stop_confidence,
        settings.stop_labels,
        settings.budget,
        settings.stop_error,
        units_of(settings.budget_cost),
        settings.policy == "escalate",
        settings.tier_labels,
        settings.stop_width,
    )


def rules_of(settings: Settings) -> Rules:
    """Return the rules by which tasks are assigned."""
    return Rules(
        settings.policy,
        settings.seed,
        round(1000 * settings.lease_seconds),
        settings.assign_on_label,
        settings.gold_rate,
        settings.block_below,
        settings.block_after,
        settings.budget,
        units_of(settings.budget_cost),
    )


# Notices when the project changes after this instance was started.


REVISION_SECONDS = 1.0
TOPICS_SECONDS = 3.0
MISSES = 3  # in a row: a broker that has just restarted may not know its topics yet


class ProjectWatch(Service):
    """Follows the project topic and the ids of all topics.

    `follow` is called with the settings of a new revision that an instance can follow at once.
    `changed` is set when there is any other, or when somebody has deleted or replaced topics
    without one. Then the instance has to stop; if `why_end` is None, it restarts.
    """

    def __init__(
        self,
        settings: Settings,
        revision: Revision,
        follow: Callable[[Settings], None],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.revision = revision
        self.follow = follow
        self.changed = asyncio.Event()
        self._replaced: ReplacedTopics | AddedPartitions | None = None

    async def on_start(self) -> None:
        """Read the project topic once more, before this instance joins the group."""
        self._log = ProjectLog(self.settings)
        self._topic_ids = TopicIds(self.settings)
        await self._log.start()
        await self._topic_ids.start()
        await self._look()

    async def on_stop(self) -> None:
        await self._log.stop()
        await self._topic_ids.stop()

    @property
    def why_end(self) -> str | None:
        """Why an instance cannot restart; None if it can."""
        last = self._log.last
        if last is not None and last.state == "deleting":
            return f"the project {self.settings.prefix} is deleted"
        return None if self._replaced is None else str(self._replaced)

    async def _look(self) -> None:
        last = await self._log.read()
        if last is None or last.number <= self.revision.number:
            return
        if not self.revision.is_followed_by(last):
            self.changed.set()
            return
        self.revision = last
        self.follow(self.revision.apply_to(self.settings))

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self.sleep(REVISION_SECONDS)
            try:
                await self._look()
            except NOT_ALLOWED:
                raise  # restarts the instance, which waits until it is authorized
            except KafkaError:
                continue  # not available: `BrokerWatch` logs it

    @Service.task
    async def _check_topics(self) -> None:
        misses = 0
        names = [topic.name for topic in Topics(self.settings)]
        while not self.should_stop:
            await self.sleep(TOPICS_SECONDS)
            try:
                found = await self._topic_ids.find(names)
                compare_topics(self.settings.prefix, self.revision, found)
                misses = 0
                await check_partitions_on(self._topic_ids, self._log.consumer)
            except AddedPartitions as added:
                self._replaced = added
                self.changed.set()
            except ReplacedTopics as replaced:
                misses += 1
                if (misses == MISSES or replaced.other) and not await self._is_intended():
                    self._replaced = replaced
                    self.changed.set()
            except (ClusterError, KafkaError):
                continue

    async def _is_intended(self) -> bool:
        """Whether a command of sbic recreates the topics; `_follow` sees its revision too."""
        try:
            last = await read_project(self.settings)
        except ClusterError:
            return False
        return last is not None and last.number > self.revision.number


log = logging.getLogger("sbic")


class Agent(Protocol):
    """A loop over batches."""

    name: str

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take batches until the app stops."""


class PipelineApp(BatchedApp):
    """One instance of the pipeline; it owns the same partitions of all topics."""

    def __init__(self, settings: Settings, revision: Revision, seal: Seal) -> None:
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
        self.components = parts = Components(settings, revision, seal, self)
        self._add_agents()
        why_not_ready = parts.readiness.why_not_ready
        self.web_port = Web(
            settings.web_host, settings.web_port, parts.metrics.registry, why_not_ready
        )
        self.readiness_log = ReadinessLog(why_not_ready)
        self.project_watch = ProjectWatch(settings, revision, self._follow)
        self.labels_watch = LabelsWatch(settings)
        self.task_survey = TaskSurvey(parts.surveyor, parts.instance)
        add_gauges(self)

    def _follow(self, settings: Settings) -> None:
        """Follow a change of the project's rules, and log it."""
        before = self.components.settings
        changed = (
            f"{name}={getattr(settings, name)}"
            for name in PROJECT_SETTINGS
            if getattr(settings, name) != getattr(before, name)
        )
        log.info("the project has changed: %s", " ".join(changed))
        self.components.follow(settings)

    def _add_agents(self) -> None:
        parts, topics = self.components, self.components.topics
        for groups in (parts.publisher.groups, parts.rejects.groups, parts.policy_agent.groups):
            self.add_publisher(groups)
        self._add_agent(parts.policy_agent, topics.requests.name)
        self._add_agent(parts.worker_agent, topics.labels.name)
        self._add_table("answers", topics.answers.name, parts.worker_agent)
        self._add_agent(parts.task_agent, topics.votes.name, topics.tasks.name, topics.roster.name)
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
            self.labels_watch,
            parts.estimates_follower,
            parts.assignments_follower,
            *([parts.settler] if parts.crowd.engine.is_settled else []),
            parts.broker_watch,
            parts.stuck_watch,
        ]
        for service in services:
            await self.add_runtime_dependency(service)

    async def leave(self) -> None:
        """Leave the group, then export the remaining spans."""
        await super().leave()
        await asyncio.to_thread(self.components.spans.flush)

    def lags_in_seconds(self) -> Iterator[Lag]:
        """Return how far each partition of labels, votes, tasks, roster and requests lags."""
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
