"""What it saves to ask cheap judges first and people where these leave doubt: recorded juries.

The judges of a jury are the first tier, and a person who knows the truth is the second, whose
answers become gold. The person begins with 100 random tasks, which are paid as all others; a judge
who is asked gives the label that was recorded. An instance without Kafka assigns tasks by the
policy `escalate` until no task is open. For comparison, the error of all judges on all tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from orjson import loads

from sbic.classes import Classes
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints, Labels, Prior
from sbic.infer.settled import AT_REST, fitted
from sbic.instance.crowd import Crowd
from sbic.instance.instance import Instance
from sbic.instance.leases import Leases
from sbic.instance.requests import Answered, AssignmentStage, Rules
from sbic.instance.survey import Survey, Surveyor
from sbic.instance.tasks import StopRules, TaskStage
from sbic.instance.tiers import UNLIMITED
from sbic.instance.workers import WorkerStage
from sbic.research.honesty import UNKNOWN
from sbic.research.outcome import Finding, text_table
from sbic.research.real_crowds import fingerprint, names_in, real_crowd
from sbic.research.running import Case, Result, run
from sbic.wire.assignments import MAX_COUNT, encode_request
from sbic.wire.dead_letters import Header
from sbic.wire.labels import encode_label
from sbic.wire.seal import KEY_BYTES, Seal
from sbic.wire.workers import RosterEntry, RosterPartition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIER_LABELS = 2, 3, 4, 6
CONFIDENCES = 0.5, 0.6, 0.7, 0.8, 0.9, 0.95
PERSON = "a person"
GOLD = 100  # random tasks that the person answers first
ROUNDS = 20  # of requests between two surveys


class EscalationPoint(NamedTuple):
    """A point of the curve: cost and error, and what comes of them.

    `cost` is per task, `by_person` the share of the tasks that the person answered. Without
    `tier_labels` and `confidence` it is the point of all judges.
    """

    crowd: str
    tier_labels: int | None
    confidence: float | None
    cost: float
    labels: float
    by_person: float
    error: float


@dataclass
class TakenRecord:
    """A record, as an instance needs it."""

    offset: int
    timestamp: int
    value: bytes | None
    headers: Sequence[Header] = ()
    topic: str = "labels"
    partition: int = 0
    key: bytes | None = None


class Jury:
    """An instance that assigns tasks to recorded judges and to a person, by tiers."""

    def __init__(self, labels: Labels, truth: Ints, rules: StopRules, seed: int) -> None:
        self.labels, self.truth = labels, truth
        names = tuple(map(str, range(max(2, len(labels.classes)))))
        self.classes = Classes(tuple(f"class {name}" for name in names))
        self.crowd = Crowd(Engine("settled", classes=len(names)), self.classes, partitions=1)
        seal = Seal(bytes(KEY_BYTES))
        workers, tasks = WorkerStage(self.crowd, seal), TaskStage(self.crowd, rules)
        self.instance: Instance[TakenRecord] = Instance(workers, tasks, seal, throttled=False)
        self.instance.open_workers(0)
        self.instance.open_tasks(0)
        roster = RosterPartition({name: RosterEntry(tier=1) for name in labels.worker_names})
        roster.entries[PERSON] = RosterEntry(tier=2)
        self.instance.restore_roster({0: roster})
        self.instance.workers_ready([0])
        self.instance.tasks_ready([0], generation=1)
        self.stage = AssignmentStage(workers, Leases(), Rules("escalate", seed), Prior())
        self.surveyor = Surveyor(tasks)
        self.rng = np.random.default_rng(seed)
        self.said = {
            (task, worker): answer
            for task, worker, answer in zip(
                labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True
            )
        }
        self.given: dict[str, int] = dict.fromkeys((*labels.worker_names, PERSON), 0)
        self.offset = self.requests = 0
        self.offset_of_tasks = len(truth)
        self._register()
        self._begin(min(len(labels.worker_names), rules.tier_labels or UNLIMITED))

    def _begin(self, judges: int) -> None:
        """Let so many judges and the person answer random tasks, before anything is known.

        As many judges as answer other tasks: confidence is calibrated for such.
        """
        known = np.flatnonzero(self.truth != UNKNOWN)
        records = []
        for i in self.rng.choice(known, min(GOLD, len(known)), replace=False).tolist():
            self._know(i)
            records.append(self._label(PERSON, str(i), int(self.truth[i])))
            for place in self.rng.permutation(len(self.labels.worker_names))[:judges].tolist():
                answer = self.said.get((i, place))
                records.append(self._label(self.labels.worker_names[place], str(i), answer))
        self.instance.take({0: records})
        self._publish()

    def _know(self, i: int) -> None:
        """Make what the person says of a task gold."""
        self.offset_of_tasks += 1
        gold = self.classes.label_of(int(self.truth[i]))
        value = b'{"task": "%d", "gold": "%s"}' % (i, str(gold).encode())
        self.instance.describe(TakenRecord(self.offset_of_tasks, 0, value, topic="tasks"))

    def _label(self, name: str, task: str, answer: int | None) -> TakenRecord:
        label = 0 if answer is None else self.classes.label_of(answer)
        self.given[name] += answer is not None
        self.offset += 1
        return TakenRecord(self.offset, 0, encode_label(task, name, label))

    def _register(self) -> None:
        known = np.flatnonzero(self.truth != UNKNOWN).tolist()
        for i in known:
            value = b'{"task": "%d"}' % i
            self.instance.describe(TakenRecord(i, 0, value, topic="tasks"))
        self._publish()

    def work(self) -> None:
        """Let everybody work until nobody gets a task."""
        for number in range(1_000_000):
            if number % ROUNDS == 0:
                self._survey()
            if not self._round() and not self._survey_and_round():
                return

    def _survey_and_round(self) -> int:
        self._survey()
        return self._round()

    def _round(self) -> int:
        """Let everybody ask once, in random order; return how many labels were given."""
        found = 0
        for place in self.rng.permutation(len(self.labels.worker_names)).tolist():
            found += self._ask(self.labels.worker_names[place], place)
        return found or self._ask(PERSON, None)

    def _ask(self, name: str, place: int | None) -> int:
        request = TakenRecord(self.requests, 0, encode_request(name, MAX_COUNT), topic="requests")
        self.requests += 1
        answered: Answered[TakenRecord] = Answered()
        self.stage.answer(0, [request], 0, answered)
        records = list(self._labels(name, place, answered))
        if not records:
            return 0
        rows = self.instance.take({0: records})
        if rows is not None:
            taken = self.instance.workers.labels_of(rows)
            self.stage.labels_taken(0, taken, 0, Answered[TakenRecord]())
        self._publish()
        return len(records)

    def _labels(
        self, name: str, place: int | None, answered: Answered[TakenRecord]
    ) -> Iterator[TakenRecord]:
        for given in answered.given.get(0, ()):
            task = loads(given.value)["task"]
            if task is None:
                return
            answer = self.truth[int(task)] if place is None else self.said.get((int(task), place))
            if place is None:
                self._know(int(task))
            yield self._label(name, task, None if answer is None else int(answer))

    def _publish(self) -> None:
        group = self.instance.filling
        self.instance.begin_group()
        self.instance.refresh(20 * MAX_COUNT)
        self.instance.publication(group)
        self.instance.published()

    def _survey(self) -> None:
        while self.instance.refresh(1_000_000):
            pass
        for tasks in self.surveyor.steps(Survey.empty(len(self.classes))):
            self.instance.review(tasks)
        self._publish()

    def error(self) -> float:
        """Return the share of wrong predictions at rest."""
        engine = self.crowd.engine
        engine.settle(AT_REST)
        known = np.flatnonzero(self.truth != UNKNOWN)
        numbers = self.crowd.number_tasks([str(i) for i in known.tolist()])
        return float((engine.beliefs(numbers).argmax(axis=1) != self.truth[known]).mean())


def escalation(data: Path, out: Path, *, price: float, seed: int, jobs: int) -> Finding:
    """Run the cases that are not yet in the journal, and build the table."""
    cases: list[Case] = [
        {
            "set": name,
            "files": fingerprint(data, name),
            "tier_labels": most,
            "confidence": confidence,
        }
        for name in names_in(data)
        for most in (0, *TIER_LABELS)
        for confidence in (CONFIDENCES if most else (0.0,))
    ]
    journal = out / "escalation.jsonl"
    task = partial(measure, str(data))
    results = run(task, cases, seed=seed, jobs=jobs, journal=journal, title="Escalation")
    points = [point(case, result, price) for case, result in zip(cases, results, strict=True)]
    return Finding(
        "escalation",
        EscalationPoint._fields,
        points,
        as_text(points, price),
        partial(draw, points, price),
    )


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Labels and error of one point; the price of a person is added later."""
    labels, truth = real_crowd(data, str(case["set"]))
    tasks = int((truth != UNKNOWN).sum())
    if not case["tier_labels"]:
        engine = fitted(labels, Prior())
        engine.settle(AT_REST)
        known = np.flatnonzero(truth != UNKNOWN)
        wrong = float((engine.beliefs(known).argmax(axis=1) != truth[known]).mean())
        return {"judged": len(labels) / labels.tasks, "by_person": 0.0, "error": wrong}
    rules = StopRules(
        float(case["confidence"]), escalates=True, tier_labels=int(case["tier_labels"])
    )
    jury = Jury(labels, truth, rules, int(rng.integers(1 << 30)))
    jury.work()
    by_person = jury.given.pop(PERSON) / tasks
    return {
        "judged": sum(jury.given.values()) / tasks,
        "by_person": by_person,
        "error": jury.error(),
    }


def point(case: Case, result: Result, price: float) -> EscalationPoint:
    """Return the point of a case, with a person who costs so many times what a judge does."""
    judged, by_person = float(result["judged"]), float(result["by_person"])
    is_all = not case["tier_labels"]
    return EscalationPoint(
        str(case["set"]),
        None if is_all else int(case["tier_labels"]),
        None if is_all else float(case["confidence"]),
        judged + price * by_person,
        judged + by_person,
        by_person,
        float(result["error"]),
    )


def frontier(points: Sequence[EscalationPoint]) -> list[EscalationPoint]:
    """Return the points with a smaller error than all cheaper ones, the cheapest first."""
    found: list[EscalationPoint] = []
    for each in sorted(points, key=lambda each: (each.cost, each.error)):
        if not found or each.error < found[-1].error:
            found.append(each)
    return found


def as_text(points: Sequence[EscalationPoint], price: float) -> str:
    """For each jury, what everybody costs, and the curve of the cheapest points."""
    parts = [f"Cheap judges first, then a person who costs {price:g} times a judge's label"]
    header = ("tier labels", "confidence", "cost", "of everybody", "by a person", "error")
    for name in dict.fromkeys(each.crowd for each in points):
        (everybody,) = (each for each in points if each.crowd == name and not each.tier_labels)
        curve = frontier([each for each in points if each.crowd == name and each.tier_labels])
        rows = [
            (
                str(each.tier_labels or "all"),
                "-" if each.confidence is None else f"{each.confidence:g}",
                f"{each.cost:.2f}",
                f"{each.cost / everybody.cost:.0%}",
                f"{each.by_person:.1%}",
                f"{each.error:.4f}",
            )
            for each in (*curve, everybody)
        ]
        as_good = [each for each in curve if each.error <= everybody.error]
        note = "never as right as all judges"
        if as_good:
            note = f"as right as all judges for {as_good[0].cost / everybody.cost:.0%} of the money"
        parts.append(f"{name}: {note}\n\n{text_table(header, rows)}")
    return "\n\n".join(parts)


def draw(points: Sequence[EscalationPoint], price: float, figure: "Figure") -> None:
    """Draw the error by the cost, for each jury."""
    names = list(dict.fromkeys(each.crowd for each in points))
    for axes, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
        own = [each for each in points if each.crowd == name]
        tiered, (everybody,) = (
            [each for each in own if each.tier_labels],
            [each for each in own if not each.tier_labels],
        )
        axes.plot([each.cost for each in tiered], [each.error for each in tiered], ".", alpha=0.4)
        curve = frontier(tiered)
        axes.plot([each.cost for each in curve], [each.error for each in curve], "o-")
        axes.plot(everybody.cost, everybody.error, "s", label="all judges")
        axes.axhline(everybody.error, alpha=0.4)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.4)
        axes.set_title(name)
        axes.set_xlabel(f"cost of a task; a person costs {price:g}")
        axes.set_ylabel("share of wrong predictions")
        axes.legend()
