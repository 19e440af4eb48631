"""The status of a project: what `sbic status --json` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.status.letter_counts import LetterCounts
from pipeline.status.rest import Settledness
from pipeline.status.tasks import TaskTally
from pipeline.status.workers import WorkerTally

DISPUTED = 10
RATED = 5
RATE_SECONDS = 60


class Member(NamedTuple):
    """An instance as a member of its group: its partitions, and its lag on them."""

    id: str
    host: str
    partitions: list[int]
    lag: int


class Flow(NamedTuple):
    """Labels in the topic, and how many of them arrived in the last `RATE_SECONDS`."""

    in_topic: int
    lately: int


NO_FLOW = Flow(0, 0)
NOT_KNOWN = Settledness(None, "not known")


@dataclass(frozen=True)
class Activity:
    """What Kafka reported at one time, in milliseconds: the rate of labels, the group and its lag.

    `lag` is by topic; the state of the group is in Kafka's words.
    """

    at: int = 0
    flow: Flow = NO_FLOW
    group_state: str = "Empty"
    members: Sequence[Member] = ()
    lag: Mapping[str, int] = field(default_factory=dict)
    settled: Settledness = NOT_KNOWN


@dataclass
class Summary:
    """The status of a project; its parts are filled by the readers of the topics."""

    project: str
    settings: Mapping[str, Any]
    budget: int | None = None
    tasks: TaskTally = field(default_factory=TaskTally)
    workers: WorkerTally = field(default_factory=WorkerTally)
    letters: LetterCounts = field(default_factory=LetterCounts)
    activity: Activity = field(default_factory=Activity)

    def update(self, activity: Activity) -> None:
        """Replace the activity by a newer one."""
        self.activity = activity

    @property
    def per_second(self) -> float:
        """Labels per second in the last `RATE_SECONDS`."""
        return self.activity.flow.lately / RATE_SECONDS

    @property
    def budget_left(self) -> int | None:
        """Labels until the budget is spent."""
        return None if self.budget is None else max(0, self.budget - self.tasks.labels)

    @property
    def budget_seconds(self) -> float | None:
        """Seconds until the budget is spent at the current rate."""
        if self.budget_left is None or (self.budget_left and not self.per_second):
            return None
        return self.budget_left / self.per_second if self.budget_left else 0.0

    def as_object(self) -> dict[str, Any]:
        """The summary as a JSON object, described by schemas/status.schema.json.

        >>> Summary("sbic", {}).as_object()["tasks"]["known"]
        0
        """
        tasks, workers, activity = self.tasks, self.workers, self.activity
        dead_letters = self.letters.by_reason
        return {
            "project": self.project,
            "at": activity.at,
            "labels": {
                "counted": tasks.labels,
                "in_topic": activity.flow.in_topic,
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
                "is_settled": activity.settled.is_settled,
                "why": activity.settled.why,
                "tasks_due": activity.settled.due,
            },
            "budget": self._budget(),
            "disputed": [task._asdict() for task in tasks.most_disputed(DISPUTED)],
            "workers": {
                "known": len(workers),
                "best": [rated._asdict() for rated in workers.best(RATED)],
                "worst": [rated._asdict() for rated in workers.worst(RATED)],
            },
            "dead_letters": {
                "total": sum(dead_letters.values()),
                "replayed": self.letters.replayed,
                "by_reason": dead_letters,
            },
            "instances": {
                "group_state": activity.group_state,
                "lag": dict(activity.lag),
                "members": [member._asdict() for member in activity.members],
            },
            "settings": dict(self.settings),
        }

    def _budget(self) -> dict[str, Any] | None:
        if self.budget is None:
            return None
        return {"labels": self.budget, "left": self.budget_left, "seconds": self.budget_seconds}
