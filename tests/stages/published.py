"""Checks of what a simulated cluster has published against its inputs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from orjson import loads

from sbic.classes import RETRACT, SKIP, Classes
from sbic.engine.copies import COMMON
from sbic.engine.engine import Engine
from sbic.wire.columns import Columns
from sbic.wire.flat import flat_encoder
from sbic.wire.labels import label_parser
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import ParsedDescription, task_parser
from sbic.wire.votes import parse_votes
from sbic.wire.workers import NOTHING_SAID, RosterEntry, parse_roster
from tests.stages.schedules import GOOD_CROWD, WORKERS
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.project import PRIOR, SimulatedProject


@dataclass
class StandingAnswer:
    """A label that stands: its partition and offset, and the number of its class."""

    partition: int
    offset: int
    answer: int


class ExpectedResults:
    """What follows from the input topics alone."""

    def __init__(self, log: Log, project: SimulatedProject) -> None:
        parse = label_parser(project.classes)
        self.standing: dict[tuple[str, str], StandingAnswer] = {}
        self.sources: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.descriptions: dict[str, ParsedDescription] = {}
        self.skips: set[tuple[str, str]] = set()
        for partition, records in enumerate(log["labels"]):
            for record in records:
                task, worker, answer = parse(record.value)
                known = self.standing.get((task, worker))
                if answer == SKIP:
                    self.skips.add((task, worker))
                if answer == SKIP or (answer == RETRACT and known is None):
                    continue
                self.sources[task][str(partition)] = record.offset
                if answer == RETRACT:
                    del self.standing[task, worker]
                elif known is None or (project.repeats == "last" and known.answer != answer):
                    self.standing[task, worker] = StandingAnswer(partition, record.offset, answer)
        parse_task = task_parser(project.classes)
        for records in log["tasks"]:
            for record in records:
                description = parse_task(record.key, record.value)
                self.descriptions.setdefault(description["task"], {}).update(description)
                self.sources[description["task"]]["tasks"] = record.offset

    def labels(self, task: str) -> list[StandingAnswer]:
        return [label for (name, _), label in self.standing.items() if name == task]


def check_facts(posteriors: dict[str, dict[str, Any]], expected: ExpectedResults) -> None:
    """Check that the last posterior of every task has its standing labels and its description."""
    assert set(posteriors) == set(expected.sources)
    for task, posterior in posteriors.items():
        description = expected.descriptions.get(task, {})
        assert posterior["labels"] == len(expected.labels(task))
        assert posterior["sources"] == expected.sources[task]
        assert ("gold" in posterior) is (description.get("gold") is not None)
        assert ("prior" in posterior) is (description.get("prior") is not None)
        assert posterior["status"] == (description.get("status") or "open")


def check_flat(log: Log, classes: Classes) -> None:
    """Check that the last flat record of every task is that of its last posterior."""
    encode = flat_encoder(classes)
    for posteriors, flat in zip(log["posteriors"], log["flat"], strict=True):
        last = {record.key: encode(record.value or b"") for record in posteriors}
        assert {record.key: record.value for record in flat} == last


def roster_of(log: Log) -> dict[str, RosterEntry]:
    """The last entry of each worker."""
    said: dict[str, RosterEntry] = {}
    for records in log["roster"]:
        said |= [parse_roster(record.key, record.value) for record in records]
    return said


def check_tiers(
    members: Sequence[SimulatedMember], log: Log, expected: ExpectedResults, most: int | None
) -> None:
    """Check the tier of each task on each instance, what is spent, and which tasks are closed."""
    said = roster_of(log)
    tier = {worker: said.get(worker, NOTHING_SAID).tier for worker in WORKERS}
    can = {worker: tier[worker] for worker in WORKERS if tier[worker] and not said[worker].blocked}
    tiers = dict.fromkeys(log.posteriors(), 0)
    for task in tiers:
        answered = {worker for name, worker in expected.standing if name == task}
        silent = answered | {worker for name, worker in expected.skips if name == task}
        for number in sorted({*can.values(), 1}, key=lambda number: -(number or 0)):
            left = {worker for worker in can if can[worker] == number} - silent
            is_open_crowd = number == 1 and 1 not in can.values()
            given = sum((tier[worker] or 1) == number for worker in answered)
            if (left or is_open_crowd) and (most is None or given < most):
                tiers[task] = number or 0
    last = max([*can.values(), 1], key=lambda number: number or 0)
    price = {worker: said.get(worker, NOTHING_SAID).price or 0 for worker in WORKERS}
    spent = sum(price[worker] for _, worker in expected.standing)
    for task, posterior in log.posteriors().items():
        description = expected.descriptions.get(task, {})
        is_ruled = "status" not in description and description.get("gold") is None
        if is_ruled:
            assert (posterior.get("reason") == "escalated") is (tiers[task] == 0), task
        for member in (member for member in members if member.partitions):
            number = member.crowd.tasks.known(task)
            if number is not None:
                found = int(member.crowd.task.tier[number])
                assert found == tiers[task] or (not is_ruled and found == last), (task, tiers)
            assert member.crowd.spent == round(spent * 1_000_000)


def check_roster(members: Sequence[SimulatedMember], log: Log) -> None:
    """Check that owners know the last entry of each worker, and that their records have it."""
    said = roster_of(log)
    for worker in WORKERS:
        home = partition_of(worker.encode(), log.partitions)
        [owner] = [member for member in members if home in member.partitions]
        assert owner.crowd.roster.of(home, worker) == said.get(worker, NOTHING_SAID)
    published = {record.key: record.value for records in log["workers"] for record in records}
    for value in published.values():
        found = loads(value or b"")
        entry = RosterEntry(*map(found.get, RosterEntry._fields))
        assert entry == said.get(found["worker"], NOTHING_SAID)


def check_votes(log: Log, expected: ExpectedResults) -> None:
    """Check that log-odds are the prior plus one vote of each label that stands."""
    cast = defaultdict(set)
    for records in log["evidence"]:
        for record in records:
            if Columns(record.value).kind != "votes":
                continue
            votes = parse_votes(record.value, 2)
            for offset, vote in zip(votes.offsets.tolist(), votes.votes.tolist(), strict=True):
                cast[votes.source, offset].add(vote)
    for task, posterior in log.posteriors().items():
        prior = expected.descriptions.get(task, {}).get("prior") or [1 - PRIOR.q, PRIOR.q]
        start = np.log(prior[1] / prior[0])
        # two instances may have taken the same label, with different weights
        votes_of = [cast[label.partition, label.offset] for label in expected.labels(task)]
        sums = [start + sum(votes) for votes in product(*votes_of)]
        found = posterior["evidence"] if "gold" in posterior else posterior["log_odds"]
        assert any(found == pytest.approx(total, abs=1e-9) for total in sums)


def check_agreement(members: Sequence[SimulatedMember], log: Log) -> None:
    """Check that instances with partitions agree with the last posterior of tasks with labels."""
    for task, posterior in log.posteriors().items():
        for member in (member for member in members if member.partitions):
            number = member.crowd.tasks.known(task)
            if number is not None and posterior["labels"]:
                belief = member.crowd.engine.beliefs([number])[0, 1]
                assert belief == pytest.approx(posterior["probability"], abs=1e-9)


class Offline:
    """The offline computation on all labels, at its fixed point."""

    def __init__(
        self,
        expected: ExpectedResults,
        classes: Classes,
        common: int,
        roster: Mapping[str, RosterEntry] = {},  # not changed
    ) -> None:
        self.engine = Engine(
            "settled",
            classes=len(classes),
            prior=GOOD_CROWD,
            common=common,
            is_ordered=classes.is_ordered,
        )
        self.tasks = sorted(expected.sources)
        self.numbers = np.arange(len(self.tasks))
        rows = [
            (self.tasks.index(task), WORKERS.index(worker), label.answer)
            for (task, worker), label in expected.standing.items()
        ]
        self.engine.make_room(len(self.tasks), len(WORKERS))
        groups = [roster.get(worker, NOTHING_SAID).group for worker in WORKERS]
        numbers = [-1 if group is None else "fg".index(group) for group in groups]
        self.engine.set_groups(range(len(WORKERS)), numbers)
        if rows:
            self.engine.take(*zip(*rows, strict=True))
        for task, description in expected.descriptions.items():
            self.engine.set_gold(self.tasks.index(task), description.get("gold"))
            self.engine.set_prior(self.tasks.index(task), description.get("prior"))
        self.engine.settle(1e-12)

    def beliefs(self) -> dict[str, list[float]]:
        return dict(zip(self.tasks, self.engine.beliefs(self.numbers).tolist(), strict=True))

    def begin_at(self, beliefs: dict[str, list[float]]) -> None:
        """Compute the fixed point that these beliefs lead to."""
        golds = self.engine.golds(self.numbers)
        scores = np.log([np.maximum(beliefs[task], 1e-300) for task in self.tasks])
        self.engine.release_tasks(self.numbers)
        self.engine.receive_tasks(self.numbers, scores.reshape(len(golds), -1), golds)
        self.engine.acquire_tasks(self.numbers)
        self.engine.settle(1e-12)


def check_rest(log: Log, expected: ExpectedResults, classes: Classes, common: int = COMMON) -> None:
    """Check that the published posteriors are a fixed point of the offline computation.

    A small crowd can have several fixed points: that all workers are wrong is consistent, too. The
    prior of these tests, that workers are mostly right, excludes it. Where gold or a task's prior
    contradicts labels, several can remain; then any of them will do.
    """
    told: dict[str, list[float]] = {}
    for task, posterior in log.posteriors().items():
        if classes.is_signs:
            told[task] = [1 - posterior["probability"], posterior["probability"]]
        else:
            told[task] = [posterior["probabilities"][name] for name in classes.names]
    offline = Offline(expected, classes, common, roster_of(log))
    if is_like(told, offline.beliefs(), expected):
        return
    assert any(
        description.get("gold") is not None or description.get("prior") is not None
        for description in expected.descriptions.values()
    )
    offline.begin_at(told)
    assert is_like(told, offline.beliefs(), expected)


def is_like(
    told: dict[str, list[float]], beliefs: dict[str, list[float]], expected: ExpectedResults
) -> bool:
    """Whether beliefs are equal for all tasks with labels; others have the class prior of then."""
    return all(
        told[task] == pytest.approx(beliefs[task], abs=1e-6)
        for task in told
        if expected.labels(task)
    )
