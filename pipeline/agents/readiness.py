"""Whether an instance is ready, and whether it has read everything there is."""

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.broker_watch import BrokerWatch
from pipeline.agents.estimates_follower import EstimatesFollower
from pipeline.batched.app import BatchedApp


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
