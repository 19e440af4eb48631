"""The status of a project: what `sbic status --json` prints."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from aiokafka import ConsumerRecord

from sbic.classes import SIGNS, Classes
from sbic.infer.judging import shares_of
from sbic.infer.report import Share
from sbic.project.settings import classes_of
from sbic.status.contents import Letter, letter_of
from sbic.status.tallies import Honesty, TaskTally, WorkerTally
from sbic.wire.dead_letters import Origin
from sbic.wire.estimates import Findings
from sbic.wire.rendering import rendering_of


class LetterCounts:
    """Counts the records of the dead-letter topic.

    `replayed` is how many letters were replayed; these are counted by reason as well.
    """

    def __init__(self) -> None:
        self._reasons: dict[Origin, str] = {}  # the reason of each letter
        self._counts: Counter[str] = Counter()
        self._replayed: set[Origin] = set()

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Count records of the topic, each partition's in order."""
        for record in records:
            if letter := letter_of(record):
                self.add(letter)

    def add(self, letter: Letter) -> None:
        """Count a letter, or the mark of one that was replayed."""
        origin, reason = letter.headers.origin, letter.headers.reason
        if letter.headers.is_replayed:
            self._replayed.add(origin)
        elif self._reasons.get(origin) != reason:
            if origin in self._reasons:
                self._counts[self._reasons[origin]] -= 1
            self._reasons[origin] = reason
            self._counts[reason] += 1

    @property
    def by_reason(self) -> dict[str, int]:
        """The number of letters by reason, the most frequent first."""
        return {reason: count for reason, count in self._counts.most_common() if count}

    @property
    def replayed(self) -> int:
        """How many letters were replayed."""
        return len(self._replayed)


QUIET_MS = 1000  # a report ignores what was published shorter than this before it


class RestReport(NamedTuple):
    """The last report of an instance: when, by Kafka's clock, and how many tasks are due."""

    at: int
    is_at_rest: bool
    due: int


class Settledness(NamedTuple):
    """Whether a project is settled (None: not known), and why, in words."""

    is_settled: bool | None
    why: str
    due: int | None = None


def settledness(
    owners: Iterable[frozenset[int]],
    reports: Mapping[int, RestReport],
    moved_at: int,
    lag: int,
) -> Settledness:
    """Whether a project is settled.

    `owners` has the partitions of each instance, `reports` the last report in each partition (an
    instance publishes to its first), `moved_at` when the last vote or estimate was published, and
    `lag` how many records were not read yet.

    >>> two = [frozenset({0, 1}), frozenset({2})]
    >>> reports = {0: RestReport(9000, True, 0), 2: RestReport(8000, True, 0)}
    >>> settledness(two, reports, moved_at=5000, lag=0).is_settled
    True
    >>> settledness(two, reports, moved_at=7500, lag=0)
    Settledness(is_settled=False, why='labels or estimates have just arrived', due=0)
    >>> settledness(two, {0: reports[0]}, moved_at=5000, lag=0).is_settled is None
    True
    """
    groups = [partitions for partitions in owners if partitions]
    if not groups:
        return Settledness(None, "no instance is running")
    last = [reports.get(min(partitions)) for partitions in groups]
    known = [report for report in last if report is not None]
    if len(known) < len(groups):
        return Settledness(None, "not all instances have reported yet")
    due = sum(report.due for report in known)
    if lag:
        return Settledness(False, f"{lag:,} records are still to be read", due)
    if not all(report.is_at_rest for report in known):
        return Settledness(False, f"{due:,} tasks are due to be recomputed", due)
    if any(report.at < moved_at + QUIET_MS for report in known):
        return Settledness(False, "labels or estimates have just arrived", due)
    return Settledness(True, "no probability moves any more", due)


def findings_of(
    owners: Iterable[frozenset[int]], findings: Mapping[int, Findings]
) -> Findings | None:
    """Return what all instances find; None unless each has reported since it began."""
    found = [findings.get(min(partitions)) for partitions in owners if partitions]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return reduce(Findings.plus, known)


DISPUTED = 10
RATED = 5
RATE_SECONDS = 60


class Member(NamedTuple):
    """An instance as a member of its group: its partitions, and its lag on them."""

    id: str
    host: str
    partitions: list[int]
    lag: int


class ShownSink(NamedTuple):
    """What keeps another system up to date: its lag, and when it last committed, if known.

    The time is in milliseconds.
    """

    name: str
    lag: int
    committed_at: int | None


class Sinks(NamedTuple):
    """How many sinks there are, and the first of them."""

    known: int = 0
    first: Sequence[ShownSink] = ()


class Flow(NamedTuple):
    """Labels in the topic, and how many of them arrived in the last `RATE_SECONDS`."""

    in_topic: int
    lately: int


NO_FLOW = Flow(0, 0)
NO_SINKS = Sinks()
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
    warnings: Sequence[str] = ()
    findings: Findings | None = None
    sinks: Sinks = NO_SINKS


@dataclass
class Summary:
    """The status of a project; its parts are filled by the readers of the topics."""

    project: str
    settings: Mapping[str, Any]
    tasks: TaskTally = field(default_factory=TaskTally)
    workers: WorkerTally = field(default_factory=WorkerTally)
    letters: LetterCounts = field(default_factory=LetterCounts)
    activity: Activity = field(default_factory=Activity)

    def update(self, activity: Activity) -> None:
        """Replace the activity by a newer one."""
        self.activity = activity

    def follow(self, settings: Mapping[str, Any]) -> None:
        """Replace the settings: the project has changed its rules."""
        self.settings = settings

    @property
    def budget(self) -> int | None:
        """The budget of the project, if it has one."""
        return self.settings.get("budget")

    @property
    def budget_cost(self) -> float | None:
        """The budget of the project in money, if it has one."""
        return self.settings.get("budget_cost")

    @property
    def cost_left(self) -> float | None:
        """Money until the budget is spent."""
        budget = self.budget_cost
        return None if budget is None else max(0.0, budget - self.workers.spent)

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
        """Seconds until the budget is spent at the current rate; None if nothing will spend it."""
        if self.budget_left is None or (self.budget_left and not self._is_spending):
            return None
        return self.budget_left / self.per_second if self.budget_left else 0.0

    @property
    def _is_spending(self) -> bool:
        """Whether labels arrive, and there is a task that they can be for."""
        return bool(self.per_second) and self.tasks.open > 0

    @property
    def honesty(self) -> Honesty:
        """How far the expected number of wrong predictions can be believed.

        Once gold calibrates them, posteriors expect of it what it says: whether it contradicts
        labels is seen by what these say alone, as instances report it.
        """
        found, reported = self.tasks.honesty, self.activity.findings
        if reported is not None and reported.gold == found.gold:
            found = found._replace(wrong=reported.wrong, expected=reported.expected)
        return found

    @property
    def classes(self) -> Classes:
        """The classes of the project."""
        return classes_of(self.settings) if "classes" in self.settings else SIGNS

    @property
    def disputed(self) -> list[dict[str, Any]]:
        """The tasks that are predicted least certainly, as in JSON."""
        found = self.tasks.most_disputed(DISPUTED)
        form = rendering_of(self.classes) if found else None
        return [
            {**task._asdict(), "prediction": form.prediction(task.prediction)}
            for task in found
            if form
        ]

    @property
    def prevalence(self) -> dict[str, Share] | None:
        """The share of each class, corrected by gold; None while no instance reports it."""
        found = self.activity.findings
        if found is None or not found.shares.tasks:
            return None
        names = self.classes.names
        if found.shares.every.shape[1] != len(names):
            return None  # of an instance before the project changed its classes
        return shares_of(names, found.shares)

    def _prevalence(self) -> dict[str, Any] | None:
        found = self.prevalence
        return found and {name: share._asdict() for name, share in found.items()}

    def _honesty(self) -> dict[str, Any]:
        found, reported = self.honesty, self.activity.findings
        return {
            "is_calibrated": found.is_calibrated,
            "dependence": None if reported is None else reported.dependence,
            "gold": found.gold,
            "interval": None if found.interval is None else list(found.interval),
            "gold_to_halve": found.gold_to_halve,
            "wrong_on_gold": found.wrong,
            "expected_wrong_on_gold": found.expected,
            "is_contradicted": found.is_contradicted,
            "effective_votes": found.votes,
        }

    def as_object(self) -> dict[str, Any]:
        """Return the summary as a JSON object, described by schemas/status.schema.json.

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
            "honesty": self._honesty(),
            "prevalence": self._prevalence(),
            "settled": {
                "is_settled": activity.settled.is_settled,
                "why": activity.settled.why,
                "tasks_due": activity.settled.due,
            },
            "budget": self._budget(),
            "money": {
                "spent": workers.spent,
                "budget": self.budget_cost,
                "left": self.cost_left,
            },
            "disputed": self.disputed,
            "workers": {
                "known": len(workers),
                "best": [rated._asdict() for rated in workers.best(RATED)],
                "worst": [rated._asdict() for rated in workers.worst(RATED)],
                "drifting": {
                    "known": len(workers.drifting),
                    "first": workers.drifting[:RATED],
                },
                "contradicted": {
                    "known": len(workers.contradicted),
                    "first": workers.contradicted[:RATED],
                },
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
            "sinks": {
                "known": activity.sinks.known,
                "first": [sink._asdict() for sink in activity.sinks.first],
            },
            "warnings": list(activity.warnings),
            "settings": dict(self.settings),
        }

    def _budget(self) -> dict[str, Any] | None:
        if self.budget is None:
            return None
        return {"labels": self.budget, "left": self.budget_left, "seconds": self.budget_seconds}
