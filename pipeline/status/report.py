"""The whole status of a project: what `sbic status --json` prints, in a shape that stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.status.rest import Settledness
from pipeline.status.tasks import TaskTally
from pipeline.status.workers import WorkerTally

DISPUTED = 10
RATED = 5
RATE_SECONDS = 60


class Member(NamedTuple):
    """An instance, as its group knows it: its partitions, and what it has not read of them."""

    id: str
    host: str
    partitions: list[int]
    lag: int


class Flow(NamedTuple):
    """Labels in the topic, and how many of them came in the last `RATE_SECONDS`."""

    in_topic: int
    lately: int


NO_FLOW = Flow(0, 0)
NOT_KNOWN = Settledness(None, "not known")


@dataclass
class Summary:
    """All that is known of a project; whoever reads topics adds to it.

    `replayed` are dead letters that were sent again; they are among those by reason too.
    """

    project: str
    settings: Mapping[str, Any]
    budget: int | None = None
    at: int = 0
    tasks: TaskTally = field(default_factory=TaskTally)
    workers: WorkerTally = field(default_factory=WorkerTally)
    flow: Flow = NO_FLOW
    settled: Settledness = NOT_KNOWN
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    replayed: int = 0
    group_state: str = "Empty"
    members: Sequence[Member] = ()
    lag: Mapping[str, int] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Labels per second of late."""
        return self.flow.lately / RATE_SECONDS

    @property
    def budget_left(self) -> int | None:
        """Labels until the budget is spent."""
        return None if self.budget is None else max(0, self.budget - self.tasks.labels)

    @property
    def budget_seconds(self) -> float | None:
        """Seconds until the budget is spent at the rate of late."""
        if self.budget_left is None or (self.budget_left and not self.per_second):
            return None
        return self.budget_left / self.per_second if self.budget_left else 0.0

    def as_object(self) -> dict[str, Any]:
        """The summary as JSON has it; schemas/status.schema.json describes it.

        >>> Summary("sbic", {}).as_object()["tasks"]["known"]
        0
        """
        tasks, workers = self.tasks, self.workers
        return {
            "project": self.project,
            "at": self.at,
            "labels": {
                "counted": tasks.labels,
                "in_topic": self.flow.in_topic,
                "per_second": self.per_second,
            },
            "tasks": {
                "known": len(tasks),
                "open": tasks.open,
                "closed": tasks.closed,
                "gold": tasks.gold,
                "without_labels": tasks.without_labels,
            },
            "expected_wrong": tasks.expected_wrong,
            "settled": {
                "is_settled": self.settled.is_settled,
                "why": self.settled.why,
                "tasks_due": self.settled.due,
            },
            "budget": self._budget(),
            "disputed": [task._asdict() for task in tasks.most_disputed(DISPUTED)],
            "workers": {
                "known": len(workers),
                "best": [rated._asdict() for rated in workers.best(RATED)],
                "worst": [rated._asdict() for rated in workers.worst(RATED)],
            },
            "dead_letters": {
                "total": sum(self.dead_letters.values()),
                "replayed": self.replayed,
                "by_reason": dict(self.dead_letters),
            },
            "instances": {
                "group_state": self.group_state,
                "lag": dict(self.lag),
                "members": [member._asdict() for member in self.members],
            },
            "settings": dict(self.settings),
        }

    def _budget(self) -> dict[str, Any] | None:
        if self.budget is None:
            return None
        return {"labels": self.budget, "left": self.budget_left, "seconds": self.budget_seconds}
