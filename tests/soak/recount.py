"""Counts everything again from what users sent, and says where the outcome differs.

Of each project only the labels topic and the tasks topic are believed. Under settled all numbers
follow from them. Under Fast SBIC the weight of a label depends on what was known when it was taken,
so the log-odds have to be the sum of the votes for the labels that stand.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import log
from typing import Any, NamedTuple

import numpy as np
from aiokafka import ConsumerRecord
from orjson import JSONDecodeError, loads

from sbic.classes import SIGNS
from sbic.engine.engine import Engine
from sbic.engine.labels import Ids
from sbic.wire.columns import Columns
from sbic.wire.dead_letters import read_headers
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import task_parser
from sbic.wire.votes import parse_votes
from tests.agents.kafka import ProjectOnBroker
from tests.soak.histories import MOST_TASKS, Histories
from tests.soak.workers import WorkerRecords

CLOSE = 1e-9  # sums in another order
AT_REST = 1e-3  # where instances stop telling each other: the tolerance, added up over labels
Place = tuple[int, int]


class StandingLabel(NamedTuple):
    """A label that stands, where it is and from when."""

    label: int
    place: Place
    timestamp: int


class DescribedTask(NamedTuple):
    """What the last description of a task says: a class, and a probability of each."""

    gold: int | None
    prior: list[float] | None


Labels = dict[tuple[str, str], StandingLabel]
Descriptions = dict[str, DescribedTask]


def standing(records: Iterable[ConsumerRecord], partitions: int) -> Labels:
    """The labels that stand: the first of each worker for a task, unless it was taken back.

    One in another partition than its worker's counts where it was forwarded to.
    """
    found: Labels = {}
    for record in records:
        try:
            label = loads(record.value)
        except JSONDecodeError:
            continue
        task, worker = label["task"], label["worker"]
        if partition_of(worker.encode(), partitions) == record.partition:
            if label["label"] is None:
                found.pop((task, worker), None)
            else:
                place = record.partition, record.offset
                found.setdefault(
                    (task, worker), StandingLabel(label["label"], place, record.timestamp)
                )
    return found


def described(records: Iterable[ConsumerRecord]) -> Descriptions:
    """What was said last of each task."""
    parse = task_parser(SIGNS)
    return {
        said["task"]: DescribedTask(said["gold"], said["prior"])
        for said in (parse(record.key, record.value) for record in records)
    }


class Recount:
    """What a project's outcome has to be, and is."""

    def __init__(self, here: ProjectOnBroker, bad: set[bytes], requests: set[Place]) -> None:
        self.here = here
        self.bad = bad
        self.requests = requests
        self.workers_are_certain = False  # each has given a last label when all was at rest
        self.is_settled = here.settings.chosen_algorithm == "settled"
        self.labels: Labels = {}
        self.descriptions: Descriptions = {}

    async def read(self) -> None:
        """Read what users sent, and all that instances have forwarded by now."""
        topics = self.here.topics
        labels = await self.here.read(topics.labels.name)
        self.labels = standing(labels, self.here.settings.partitions)
        self.descriptions = described(await self.here.read(topics.tasks.name))

    async def differences(self) -> list[str]:
        """Where the outcome differs now; empty if it is right."""
        await self.read()
        posteriors: dict[str, Any] = dict(await self.here.posteriors())
        counted = list(self._counts(posteriors))
        if counted:
            return counted  # nothing else can be right before these are
        by_algorithm = (
            self._at_rest(posteriors) if self.is_settled else await self._votes(posteriors)
        )
        return [
            *by_algorithm,
            *self._workers(posteriors, await self._last(self.here.topics.workers.name)),
            *await self._dead_letters(),
            *await self._assignments(),
        ]

    async def histories(self) -> list[str]:
        """What happened to the labels of tasks that count too many or too few."""
        await self.read()
        posteriors: dict[str, Any] = dict(await self.here.posteriors())
        labels = Counter(task for task, _ in self.labels)
        wrong = [task for task in posteriors if posteriors[task]["labels"] != labels[task]]
        histories = Histories()
        await histories.read(self.here, set(wrong[:MOST_TASKS]))
        return list(histories.odd())

    async def _last(self, topic: str) -> dict[str, Any]:
        return {record.key.decode(): loads(record.value) for record in await self.here.read(topic)}

    def _counts(self, posteriors: dict[str, Any]) -> Iterator[str]:
        labels: defaultdict[str, int] = defaultdict(int)
        for task, _ in self.labels:
            labels[task] += 1
        for task in labels.keys() | self.descriptions.keys() | posteriors.keys():
            counted = posteriors.get(task, {}).get("labels", "no posterior")
            if counted != labels[task]:
                yield f"{task} has {labels[task]} labels, and its posterior counts {counted}"
            elif task in self.descriptions:
                yield from self._description(task, posteriors[task])

    def _description(self, task: str, posterior: Any) -> Iterator[str]:
        gold, prior = self.descriptions[task]
        if (gold is not None) != ("gold" in posterior):
            yield f"{task} was described with gold {gold}, and the posterior is {posterior}"
        if posterior.get("prior") != (prior and prior[1]):
            yield f"{task} was described with prior {prior}, and the posterior is {posterior}"

    async def _votes(self, posteriors: dict[str, Any]) -> list[str]:
        """Log-odds are sums of votes; an instance that was stalled may have given a second one."""
        given: defaultdict[Place, list[float]] = defaultdict(list)
        for topic in (self.here.topics.evidence, self.here.topics.votes):
            for record in await self.here.read(topic.name):
                if Columns(record.value).kind != "votes":
                    continue
                votes = parse_votes(record.value, classes=2)
                for offset, vote in zip(votes.offsets.tolist(), votes.votes.tolist(), strict=True):
                    given[votes.source, offset].append(vote)
        least: defaultdict[str, float] = defaultdict(float)
        most: defaultdict[str, float] = defaultdict(float)
        for (task, worker), label in self.labels.items():
            if label.place not in given:
                return [f"nobody voted for the label of {worker} on {task} at {label.place}"]
            least[task] += min(given[label.place])
            most[task] += max(given[label.place])
        wrong = []
        for task, posterior in posteriors.items():
            prior = self.descriptions.get(task, DescribedTask(None, None)).prior
            odds = posterior.get("evidence", posterior["log_odds"])
            odds -= log(prior[1] / prior[0]) if prior else 0.0
            if not least[task] - CLOSE <= odds <= most[task] + CLOSE:
                wrong.append(f"the votes for {task} are {least[task]}, and its log-odds {odds}")
        return wrong

    def _at_rest(self, posteriors: dict[str, Any]) -> Iterator[str]:
        """Where the offline engine comes to rest."""
        engine, tasks, _ = self._offline()
        beliefs = engine.beliefs(np.arange(len(tasks)))[:, 1].tolist()
        for task, belief in zip(tasks.names, beliefs, strict=True):
            probability = posteriors[task]["probability"]
            if abs(probability - belief) > AT_REST:
                yield f"{task} is at rest at {belief}, and its posterior says {probability}"

    def _offline(self) -> tuple[Engine, Ids[str], Ids[str]]:
        """All that stands in an engine, at rest; its tasks and its workers."""
        engine = Engine(self.here.settings.chosen_algorithm, classes=len(SIGNS))
        tasks, workers = Ids[str](), Ids[str]()
        on = [tasks.number(task) for task, _ in self.labels]
        by = [workers.number(worker) for _, worker in self.labels]
        for task, (gold, prior) in self.descriptions.items():
            engine.set_gold(tasks.number(task), gold)
            engine.set_prior(tasks.number(task), prior)
        answers = [SIGNS.number_of(standing.label) for standing in self.labels.values()]
        engine.take(on, by, np.array(answers, np.int64))
        if self.is_settled:
            engine.settle(1e-12)
        return engine, tasks, workers

    def _workers(self, posteriors: dict[str, Any], records: dict[str, Any]) -> Iterator[str]:
        """Each record counts the worker's labels; all of it is certain after the last label."""
        engine, _, names = self._offline()
        expected = WorkerRecords(engine, names)
        for (task, worker), (label, _, timestamp) in self.labels.items():
            expected.expected[worker].add(label, timestamp, posteriors[task])
        if self.workers_are_certain:
            yield from expected.differences(records)
            return
        for worker, counts in expected.expected.items():
            record = records.get(worker, {})
            if record.get("labels") != counts.labels:
                yield f"{worker} has given {counts.labels} labels, and the record is {record}"

    async def _dead_letters(self) -> list[str]:
        records = await self.here.read(self.here.topics.dead_letters.name)
        found = {record.value: read_headers(record.headers) for record in records}
        missing = [f"{value!r} is no dead letter" for value in self.bad - found.keys()]
        surplus = [f"a dead letter: {found[value]}" for value in found.keys() - self.bad]
        return missing + surplus

    async def _assignments(self) -> list[str]:
        """Every request is answered with one task, and nobody gets a task twice."""
        wrong = []
        by_id: dict[str, str | None] = {}
        given: dict[tuple[str, str], str] = {}
        for record in await self.here.read(self.here.topics.assignments.name):
            assignment = loads(record.value)
            if "ended" in assignment:
                continue
            worker, task, name = assignment["worker"], assignment["task"], assignment["id"]
            if by_id.setdefault(name, task) != task:
                wrong.append(f"{name} was answered with {by_id[name]}, and with {task}")
            elif task is not None and given.setdefault((worker, task), name) != name:
                wrong.append(f"{worker} got {task} as {given[worker, task]}, and as {name}")
        expected = {f"{partition}-{offset}-0" for partition, offset in self.requests}
        wrong += [f"the request {name} was not answered" for name in expected - by_id.keys()]
        wrong += [f"{name} answers no request" for name in by_id.keys() - expected]
        return wrong
