"""The objects of an instance, each constructed with everything that it needs.

labels ──▶ WorkerAgent ──▶ votes ──▶ TaskAgent ◀── tasks
            (answers)                (evidence)
                └──────▶ Crowd ◀─────────┘────▶ Publisher ──▶ posteriors, workers
requests ──▶ PolicyAgent ──┘ │ ▲                    └──────▶ estimates ──▶ other instances
                └──▶ assignments └── EstimatesFollower ◀── their estimates
"""

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.broker_watch import BrokerWatch
from pipeline.agents.ends import EndsAsker
from pipeline.agents.estimates_follower import EstimatesFollower
from pipeline.agents.own_estimates import OwnEstimates, WrittenEstimates
from pipeline.agents.policy_agent import PolicyAgent
from pipeline.agents.publisher import Publisher
from pipeline.agents.readiness import Readiness
from pipeline.agents.redirector import Redirector
from pipeline.agents.rejects import Rejects
from pipeline.agents.settler import Settler
from pipeline.agents.task_agent import TaskAgent
from pipeline.agents.telemetry.dead_letter_log import DeadLetterLog
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.agents.telemetry.otel import exporter_of
from pipeline.agents.worker_agent import WorkerAgent
from pipeline.batched.app import BatchedApp
from pipeline.batched.fence import Fence
from pipeline.batched.producer import BatchProducer
from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import Engine
from pipeline.kafka.errors import Denied
from pipeline.kafka.options import client_options
from pipeline.kafka.probe import why_unreachable
from pipeline.settings import Settings
from pipeline.stages.assignment_rules import Rules
from pipeline.stages.assignment_stage import AssignmentStage
from pipeline.stages.crowd import Crowd
from pipeline.stages.exchange import Exchange
from pipeline.stages.judge import Ends, Judge
from pipeline.stages.leases import Leases
from pipeline.stages.stop_rules import StopRules
from pipeline.stages.task_stage import TaskStage
from pipeline.stages.worker_stage import WorkerStage
from pipeline.topics import Topics


class Components:
    """Constructs the stages, the agents around them, and what they share.

    `app` provides what Faust knows: the assignment, the consumer and the recovery.
    """

    def __init__(self, settings: Settings, app: BatchedApp) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.metrics = Metrics(settings.prefix)
        self.dead_letter_log = DeadLetterLog()
        self.spans = exporter_of(settings)
        self._construct_stages()
        redirector = Redirector(self.topics, self.metrics, self.dead_letter_log)
        self.rejects = Rejects(redirector, self._producer("rejects"))
        written = WrittenEstimates(self.topics)
        self.publisher = Publisher(
            self.task_stage,
            self.exchange,
            self.topics,
            self._producer("crowd", app.fence),
            self.metrics,
            redirector,
            app.mark_stale,
            self.spans,
            [written.wrote, app.wrote],
        )
        own = OwnEstimates(written, self.publisher, self.rejects, lambda: app.is_sole_owner)
        self.estimates_follower = EstimatesFollower(
            settings, self.exchange, own, self.publisher, self.rejects
        )
        self.assignments_follower = AssignmentsFollower(
            settings, self.leases, self.judge, self.asker, self.rejects
        )
        self._construct_agents(app.fence, redirector)
        servers = ", ".join(settings.bootstrap_servers)
        self.broker_watch = BrokerWatch(servers, app.connections, self._why_denied)
        self.readiness = Readiness(
            app, self.assignments_follower, self.estimates_follower, self.broker_watch
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
        )
        self.crowd = Crowd(engine, settings.crowd_classes, settings.partitions)
        ends = Ends(settings.partitions)
        self.asker = EndsAsker(settings, ends)
        self.judge = Judge(self.crowd, ends)
        self.worker_stage = WorkerStage(self.crowd, self.judge, settings.repeats)
        stop_rules = StopRules(settings.stop_confidence, settings.stop_labels, settings.budget)
        self.task_stage = TaskStage(self.crowd, self.judge, stop_rules)
        self.exchange = Exchange(self.task_stage)
        self.leases = Leases()

    def _construct_agents(self, fence: Fence, redirector: Redirector) -> None:
        self.policy_agent = PolicyAgent(
            AssignmentStage(self.worker_stage, self.leases, self._rules(), self.prior),
            self.assignments_follower,
            self.topics,
            self._producer("policy", fence),
            self.metrics,
            redirector,
        )
        self.worker_agent = WorkerAgent(
            self.settings,
            self.worker_stage,
            self.publisher,
            self.policy_agent,
            self.asker,
            self.rejects,
        )
        self.task_agent = TaskAgent(
            self.settings,
            self.task_stage,
            self.publisher,
            self.estimates_follower,
            self.asker,
            self.rejects,
        )

    def _rules(self) -> Rules:
        settings = self.settings
        return Rules(
            settings.policy,
            settings.seed,
            round(1000 * settings.lease_seconds),
            settings.assign_on_label,
            settings.gold_rate,
            settings.block_below,
            settings.block_after,
            settings.budget,
        )

    def _producer(self, name: str, fence: Fence | None = None) -> BatchProducer:
        settings = self.settings
        return BatchProducer(client_options(settings), f"{settings.prefix}-{name}", fence)

    async def _why_denied(self) -> str | None:
        why = await why_unreachable(self.settings)
        return str(why) if isinstance(why, Denied) else None
