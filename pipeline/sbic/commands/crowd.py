"""Simulated workers: most try, others answer at random, drop out, skip or answer twice."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import numpy as np
from orjson import dumps

from sbic.classes import SIGNS, SKIP, Classes
from sbic.engine.labels import Prior
from sbic.kafka.connect import why_unreachable
from sbic.kafka.requests import PATIENCE_SECONDS, Asker, asking
from sbic.kafka.writer import At, NumberedLabel, Sent, Writer, writing
from sbic.project.settings import Settings, command_line
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import Row
from sbic.wire.posteriors import Posterior
from sbic.wire.workers import RosterEntry, encode_roster, parse_roster

CERTAIN = 1e9  # weight of the accuracy of a tier
FAVOUR = 0.8  # how often a worker with a habit follows it; otherwise they give any class


@dataclass(frozen=True)
class Habits:
    """What the workers of a crowd are like; shares are from 0 to 1.

    `spammers`, `habitual` and `drop_outs` are shares of the workers: those who answer at random,
    those who favour one class when they do not know the answer, and those who leave with a task
    unanswered. `skips` and `repeats` are shares of the assigned tasks: those that are skipped, and
    those that are answered twice.
    """

    accuracy: Prior = field(default_factory=lambda: Prior(alpha=4, beta=3))
    think_seconds: float = 0.0
    spammers: float = 0.0
    drop_outs: float = 0.0
    skips: float = 0.0
    repeats: float = 0.0
    habitual: float = 0.0


class Tier(NamedTuple):
    """Workers who are asked together, what each of their labels costs, and how often it is right.

    >>> Tier.parse("40:0.01:0.65")
    Tier(workers=40, price=0.01, accuracy=0.65)
    """

    workers: int
    price: float
    accuracy: float

    @classmethod
    def parse(cls, text: str) -> "Tier":
        """Parse the tier in a text; ValueError with what is wrong."""
        try:
            workers, price, accuracy = text.split(":")
            found = cls(int(workers), float(price), float(accuracy))
        except ValueError:
            raise ValueError("must be WORKERS:PRICE:ACCURACY, such as 40:0.01:0.65") from None
        if found.workers < 1 or not 0 < found.accuracy < 1:
            raise ValueError("must have one worker or more, and an accuracy between 0 and 1")
        parse_roster(None, {"worker": "w", "price": found.price})
        return found


class Response(NamedTuple):
    """What a worker does with a task: thinks, then gives labels; without any they have left.

    A label is the number of a class, or `SKIP`.
    """

    seconds: float
    labels: tuple[int, ...]


class SimulatedWorker:
    """One worker with a separate random generator, independent of the other workers.

    >>> truth = {"t1": 1, "t2": 0}
    >>> expert = SimulatedWorker("ann", Habits(accuracy=Prior(1e9, 1e-9)), 5, Random(0))
    >>> [expert.respond(truth[task]).labels for task in ("t1", "t2")]
    [(1,), (0,)]

    `favourite` is the class that a worker with a habit favours. They too are right with the
    probability `accuracy` if all classes are equally frequent, but not less often than by chance.
    """

    def __init__(
        self, name: str, habits: Habits, visits: int, rng: Random, classes: Classes = SIGNS
    ) -> None:
        """`visits` is how many tasks they are expected to get; drop-outs leave before that."""
        self.name = name
        self._habits = habits
        self._rng = rng
        self._classes = range(len(classes))
        accuracy = rng.betavariate(habits.accuracy.alpha, habits.accuracy.beta)
        self.accuracy = 1 / len(classes) if rng.random() < habits.spammers else accuracy
        drops_out = rng.random() < habits.drop_outs
        last = rng.randrange(max(1, visits))
        self._visits_left = last if drops_out else None
        self.favourite: int | None = None
        if habits.habitual and rng.random() < habits.habitual:
            self.favourite = rng.choice(self._classes)

    def respond(self, truth: int) -> Response:
        """Return the response to a task of this truth."""
        habits, rng = self._habits, self._rng
        if self._visits_left == 0:
            return Response(0.0, ())
        if self._visits_left is not None:
            self._visits_left -= 1
        mean = habits.think_seconds
        seconds = rng.expovariate(1 / mean) if mean else 0.0
        if rng.random() < habits.skips:
            return Response(seconds, (SKIP,))
        times = 2 if rng.random() < habits.repeats else 1
        return Response(seconds, tuple(self.answer(truth, rng) for _ in range(times)))

    def answer(self, truth: int, rng: Random) -> int:
        """Return the label for a task of this truth."""
        if self.favourite is None:
            if rng.random() < self.accuracy:
                return truth
            wrong = [label for label in self._classes if label != truth]
            return wrong[0] if len(wrong) == 1 else rng.choice(wrong)
        by_chance = 1 / len(self._classes)
        if rng.random() < (self.accuracy - by_chance) / (1 - by_chance):
            return truth
        return self.favourite if rng.random() < FAVOUR else rng.choice(self._classes)


class RoundRobin:
    """The order of workers: all once in a random order, then all once in another, and so on.

    A worker who is still at work at their turn takes it as soon as they are done.

    >>> order = RoundRobin({"ann": 1, "bob": 2}, Random(0))
    >>> first, second = order.next(), order.next()
    >>> sorted([first, second]), order.next()
    (['ann', 'bob'], None)
    >>> order.done("ann"), order.next()
    (None, 'ann')
    """

    def __init__(self, names: Mapping[str, object], rng: Random) -> None:
        self._present = dict.fromkeys(names)
        self._at_work: set[str] = set()
        self._coming: deque[str] = deque()
        self._rng = rng

    def next(self) -> str | None:
        """Return the next worker, who is then at work; None if all that are left are at work."""
        if len(self._at_work) == len(self._present):
            return None
        while True:
            for _ in range(len(self._coming)):
                name = self._coming.popleft()
                if name in self._at_work:
                    self._coming.append(name)
                elif name in self._present:
                    self._at_work.add(name)
                    return name
            everyone = list(self._present)
            self._rng.shuffle(everyone)
            self._coming.extend(everyone)

    def done(self, name: str) -> None:
        """Note that the worker is free again."""
        self._at_work.remove(name)

    def leave(self, name: str) -> None:
        """Note that the worker is done, and does not return."""
        self._at_work.remove(name)
        del self._present[name]


# Simulated workers in a closed loop: request a task, think, answer, and let the next one in.


ASK_AGAIN = "other-tier"
ASK_AGAIN_SECONDS = 0.05
ALL_DONE = frozenset({"no-open-task", "budget-spent"})  # other reasons concern one worker only


@dataclass(frozen=True)
class Plan:
    """The size of a crowd and of its work; `at_once` workers work at the same time.

    `class_prior` has the frequency of each class, in order; without it, all are equally frequent.
    With `tiers` all workers are of these, in order.
    """

    tasks: int = 1000
    workers: int = 2000
    labels_per_task: int = 20
    at_once: int = 20
    habits: Habits = field(default_factory=Habits)
    seed: int = 0
    classes: Classes = SIGNS
    class_prior: tuple[float, ...] | None = None
    tiers: tuple[Tier, ...] = ()

    @property
    def labels(self) -> int:
        """The total number of labels."""
        return self.tasks * self.labels_per_task

    def draw_truth(self, name: str) -> dict[str, int]:
        """Return the number of the true class of each task."""
        rng = Random(f"{self.seed}/tasks")
        labels = range(len(self.classes))
        if self.class_prior is None:
            truths = [rng.choice(labels) for _ in range(self.tasks)]
        else:
            truths = rng.choices(labels, self.class_prior, k=self.tasks)
        return {f"{name}-task-{number:05}": truth for number, truth in enumerate(truths)}

    def draw_workers(self, name: str) -> dict[str, SimulatedWorker]:
        """Get the workers; the same seed gives the same workers, whatever the name of the run."""
        visits = self.labels // self.workers
        workers = {}
        for number in range(self.workers):
            worker = f"{name}-worker-{number:05}"
            rng = Random(f"{self.seed}/workers/{number}")
            habits = self.habits
            if self.tiers:
                right = CERTAIN * self.tiers[self.tier_of(number) - 1].accuracy
                habits = replace(habits, accuracy=Prior(right, CERTAIN - right))
            workers[worker] = SimulatedWorker(worker, habits, visits, rng, self.classes)
        return workers

    def tier_of(self, number: int) -> int:
        """Return the tier of a worker, from 1 on.

        >>> plan = Plan(tiers=(Tier(2, 0.1, 0.7), Tier(1, 1, 0.9)))
        >>> [plan.tier_of(number) for number in range(3)]
        [1, 1, 2]
        """
        ends = accumulate(tier.workers for tier in self.tiers)
        return 1 + sum(end <= number for end in ends)

    def draw_roster(self, workers: Iterable[str]) -> dict[str, RosterEntry]:
        """Return what the roster says of these workers, all of the plan."""
        entries = {}
        for number, worker in enumerate(workers if self.tiers else ()):
            tier = self.tier_of(number)
            entries[worker] = RosterEntry(tier=tier, price=self.tiers[tier - 1].price)
        return entries


class NoAnswer(Exception):
    """No instance answered a request in time."""


V = TypeVar("V")


class CrowdClient:
    """Registers tasks, requests them and sends labels, for all workers of a crowd."""

    def __init__(self, topics: Topics, asker: Asker, writer: Writer) -> None:
        self.start_an_instance = command_line(topics.settings, "run")
        self._topics = topics
        self._form_of = topics.settings.crowd_classes.label_of
        self._asker = asker
        self._writer = writer

    async def describe(self, tasks: Iterable[str], **fields: object) -> None:
        """Register tasks, or update their fields."""
        rows = [Row(task.encode(), dumps({"task": task, **fields})) for task in tasks]
        await self._in_time(self._writer.send(self._topics.tasks.name, rows))

    async def enlist(self, said: Mapping[str, RosterEntry | None]) -> None:
        """Say something of workers, or with None withdraw it."""
        rows = [
            Row(worker.encode(), None if entry is None else encode_roster(worker, entry))
            for worker, entry in said.items()
        ]
        await self._in_time(self._writer.send(self._topics.roster.name, rows))

    async def ask(self, worker: str) -> dict[str, Any]:
        """Request a task and wait for the assignment; raises `NoAnswer`."""
        for assignment in await self._in_time(self._asker.ask(worker)):
            return assignment
        raise NoAnswer(
            f"a request was not answered in {PATIENCE_SECONDS} seconds: is an instance "
            f"running? Start one with: {self.start_an_instance}"
        )

    async def answer(self, worker: str, task: str, answer: int) -> At:
        """Send a label and return its partition and offset."""
        row = Row(worker.encode(), encode_label(task, worker, self._form_of(answer)))
        (at,) = await self._in_time(self._writer.send(self._topics.labels.name, [row]))
        return at

    async def _in_time(self, sending: Awaitable[Sequence[V]]) -> Sequence[V]:
        """Wait twice as long as for an answer: a producer itself would try without end."""
        try:
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                return await sending
        except TimeoutError:
            raise await why_unreachable(self._topics.settings) from None


@asynccontextmanager
async def crowd_client(settings: Settings, *, enlists: bool = False) -> AsyncIterator[CrowdClient]:
    topics = Topics(settings)
    roster = [topics.roster] * enlists
    async with (
        writing(settings, topics.labels, topics.tasks, topics.requests, *roster) as writer,
        asking(settings, writer) as asker,
    ):
        yield CrowdClient(topics, asker, writer)


class CrowdAtWork:
    """Works until the labels of the plan are given, or no worker or no task is left.

    `came_to` counts the outcomes: labels, skips, repeats, drop-outs, and each reason for getting no
    task. `given` is called with every acknowledged label, except skips and repeats.
    """

    def __init__(
        self,
        plan: Plan,
        truth: Mapping[str, int],
        workers: Mapping[str, SimulatedWorker],
        client: CrowdClient,
        given: Callable[[Sent], None],
    ) -> None:
        self.came_to: Counter[str] = Counter()
        self.waits: list[float] = []
        self.cost = 0.0
        self._prices = {
            worker: entry.price or 0 for worker, entry in plan.draw_roster(workers).items()
        }
        self._idle_since: float | None = None  # while all who ask are told to ask again later
        self.policy: str | None = None
        self._truth = truth
        self._workers = workers
        self._client = client
        self._given = given
        self._at_once = plan.at_once
        self._to_give = plan.labels
        self._order = RoundRobin(workers, Random(f"{plan.seed}/turns"))

    async def work(self) -> None:
        try:
            async with asyncio.TaskGroup() as at_once:
                for _ in range(self._at_once):
                    at_once.create_task(self._one_after_the_other())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the others failed for the same reason

    async def _one_after_the_other(self) -> None:
        """Let one worker after the other answer one task."""
        while self._to_give > 0 and (name := self._order.next()) is not None:
            self._to_give -= 1
            if not await self._answer_one(self._workers[name]):
                self._to_give += 1
            if self.came_to.keys() & ALL_DONE:
                return

    async def _answer_one(self, worker: SimulatedWorker) -> bool:
        """Request a task, think and answer; returns whether a label was given."""
        start = monotonic()
        assignment = await self._client.ask(worker.name)
        self.waits.append(monotonic() - start)
        task = assignment["task"]
        if task is None and assignment["reason"] == ASK_AGAIN:
            return await self._wait(worker)
        self._idle_since = None
        if task is None:
            return self._leave(worker, assignment["reason"])
        self.policy = assignment["policy"]
        truth = self._truth.get(task)
        # a task that was registered by someone else is skipped
        response = Response(0.0, (SKIP,)) if truth is None else worker.respond(truth)
        if not response.labels:
            return self._leave(worker, "drop-outs")
        await asyncio.sleep(response.seconds)
        return await self._answer(worker, task, response.labels)

    async def _wait(self, worker: SimulatedWorker) -> bool:
        """Let a worker come back later, unless nobody has got anything for long."""
        self._idle_since = self._idle_since or monotonic()
        if monotonic() - self._idle_since > PATIENCE_SECONDS:
            return self._leave(worker, ASK_AGAIN)
        self._order.done(worker.name)
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        return False

    def _leave(self, worker: SimulatedWorker, why: str) -> bool:
        self.came_to[why] += 1
        self._order.leave(worker.name)
        return False

    async def _answer(self, worker: SimulatedWorker, task: str, labels: tuple[int, ...]) -> bool:
        first, *again = labels
        at, place = monotonic(), await self._client.answer(worker.name, task, first)
        for label in again:
            await self._client.answer(worker.name, task, label)
        self._order.done(worker.name)
        if first == SKIP:
            self.came_to["skips"] += 1
            return False
        self.came_to["labels"] += 1
        self.cost += self._prices.get(worker.name, 0.0)
        if again:
            self.came_to["repeats"] += 1
        self._given(
            Sent(at, place.partition, place.offset or 0, [NumberedLabel(task, worker.name, first)])
        )
        return True


# Labels given all at once, without requests: on random tasks that are new to each worker.


def rush(
    count: int,
    truth: Mapping[str, int],
    workers: Mapping[str, SimulatedWorker],
    answered: Set[tuple[str, str]],
    seed: int,
) -> list[NumberedLabel]:
    """Draw `count` labels, none twice, and none by a worker on a task that they have `answered`.

    >>> from sbic.commands.crowd import Habits
    >>> ann = SimulatedWorker("ann", Habits(), 1, Random(0))
    >>> ((task, worker, _),) = rush(1, {"t1": 1, "t2": 1}, {"ann": ann}, {("t1", "ann")}, seed=0)
    >>> task, worker
    ('t2', 'ann')
    """
    pairs, rng = np.random.default_rng(seed), Random(seed)
    tasks, names = list(truth), list(workers)
    labels: list[NumberedLabel] = []
    for pair in pairs.permutation(len(tasks) * len(names)).tolist():
        task, name = tasks[pair // len(names)], names[pair % len(names)]
        if len(labels) == count:
            break
        if (task, name) not in answered:
            labels.append(NumberedLabel(task, name, workers[name].answer(truth[task], rng)))
    return labels


# The error as labels arrive, for a crowd whose truth is known.


class ErrorCurve:
    """The share of wrong predictions at 1, 2, ... labels per task on average.

    A missing prediction counts as a class drawn at random.

    >>> curve = ErrorCurve({"t1": 1, "t2": 0})
    >>> curve.error
    0.5
    >>> for task, prediction, labels in (("t1", 1, 1), ("t2", 1, 1), ("t2", 0, 3)):
    ...     curve.learn(Posterior(task, [0.5, 0.5], prediction, labels, {}))
    >>> curve.labels, curve.points
    (4, [0.5, 0.0])
    >>> ErrorCurve({"t1": 3}, classes=4).error
    0.75
    """

    def __init__(self, truth: Mapping[str, int], classes: int = 2) -> None:
        self._truth = truth
        self._classes = classes
        self._unknown = set(truth)  # without a prediction
        self._wrong: set[str] = set()
        self._labels: dict[str, int] = {}
        self.labels = 0
        self.points: list[float] = []

    def learn(self, posterior: Posterior) -> None:
        """Process a newer posterior of a task; tasks without a known truth are ignored."""
        task, prediction = posterior.task, posterior.prediction
        if task not in self._truth:
            return
        self._unknown.discard(task)
        self._wrong.discard(task)
        if prediction is None:
            self._unknown.add(task)
        elif prediction != self._truth[task]:
            self._wrong.add(task)
        self.labels += posterior.labels - self._labels.get(task, 0)
        self._labels[task] = posterior.labels
        while self.labels >= (len(self.points) + 1) * len(self._truth):
            self.points.append(self.error)

    @property
    def tasks(self) -> int:
        """How many of the tasks have a posterior."""
        return len(self._labels)

    @property
    def error(self) -> float:
        """The share of wrong predictions now."""
        drawn = len(self._unknown) * (1 - 1 / self._classes)
        return (len(self._wrong) + drawn) / len(self._truth)
