"""What an assignment costs: by the number of open tasks, and per second from one instance."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from time import process_time

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from orjson import dumps, loads
from rich.console import Console
from rich.table import Table

from sbic.classes import SIGNS
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints, Prior
from sbic.instance.crowd import Crowd
from sbic.instance.leases import Leases
from sbic.instance.requests import Answered, AssignmentStage, PolicyName, Rules
from sbic.instance.taken import Taken
from sbic.instance.tiers import UNLIMITED
from sbic.instance.workers import WorkerStage
from sbic.kafka.admin import ensure_topics
from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.assignments import encode_request
from sbic.wire.dead_letters import Header
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.seal import KEY_BYTES, Seal
from tests.instances import instance

FEW, MANY = 1_000, 1_000_000
ROUNDS = 3
STEPS = 5_000
WORKERS = 500
REQUESTS = 50_000
OPEN_TASKS = 10_000
ANSWERS = 100_000  # of a worker with many, among twice as many open tasks
MOVED = 20  # tasks between two requests of that worker, at most

console = Console()


@dataclass
class BenchmarkRecord:
    """A record, as the stages need it."""

    offset: int
    timestamp: int
    value: bytes | None
    headers: Sequence[Header] = ()
    topic: str = "labels"
    partition: int = 0
    key: bytes | None = None


class Loop:
    """Workers who ask, answer and ask again, without Kafka: only requests are timed."""

    def __init__(self, tasks: int, policy: PolicyName = "uncertainty") -> None:
        prior = Prior()
        self.rng = random.Random(tasks)
        self.crowd = Crowd(Engine("fast-sbic", prior=prior), SIGNS, partitions=1)
        self.workers = WorkerStage(self.crowd, Seal(bytes(KEY_BYTES)))
        self.workers.open(0)
        self.workers.ready(0)
        self.stage = AssignmentStage(self.workers, Leases(), Rules(policy), prior)
        self.numbers = self.crowd.number_tasks([f"t{number}" for number in range(tasks)])
        self.leads = np.array([self.rng.gauss(0, 2) for _ in range(tasks)])
        self._hear(self.numbers)
        self.crowd.task.remote_labels[:tasks] = 3
        self.crowd.task.tier[:tasks], self.crowd.task.left[:tasks] = 1, UNLIMITED
        self._refresh()
        self.requests = self.labels = 0

    def _hear(self, tasks: Ints) -> None:
        """The estimates of tasks come in, which another instance owns."""
        scores = np.column_stack((np.zeros(len(tasks)), self.leads[tasks]))
        self.crowd.engine.receive_tasks(tasks, scores)
        self.crowd.changed.add(tasks)

    def _refresh(self) -> None:
        self.crowd.moved()
        self.stage.refresh(0)

    def answer(self, worker: str, answers: int) -> None:
        """Let a worker have answered this many of the most uncertain tasks."""
        tasks = np.argsort(np.abs(self.leads))[:answers]
        number = self.crowd.number_workers([worker])
        self.crowd.engine.put(tasks, np.repeat(number, answers), tasks % 2, np.zeros(answers))
        self._refresh()

    def microseconds(self, worker: str) -> float:
        """Of a request, for which a label is given."""
        request = BenchmarkRecord(self.requests, 0, encode_request(worker))
        self.requests += 1
        answered: Answered[BenchmarkRecord] = Answered()
        started = process_time()
        self.stage.answer(0, [request], 0, answered)
        spent = process_time() - started
        self.label(worker, loads(answered.given[0][0].value)["task"])
        return 1e6 * spent

    def label(self, worker: str, task: str) -> None:
        """A label comes in."""
        value = encode_label(task, worker, self.rng.choice([1, -1]))
        rows = self.workers.take(
            {0: [BenchmarkRecord(self.labels, 0, value)]}, Taken[BenchmarkRecord]()
        )
        assert rows is not None
        self.leads[rows.tasks] += self.rng.gauss(0, 1)
        self._hear(rows.tasks)
        self.stage.labels_taken(0, self.workers.labels_of(rows), 0, Answered[BenchmarkRecord]())
        self.labels += 1

    def anybody(self) -> str:
        """One of the crowd."""
        return f"w{self.rng.randrange(WORKERS)}"


def cost_by_open_tasks() -> None:
    """Microseconds of a request with few and with many open tasks, in turn."""
    few, many = Loop(FEW), Loop(MANY)
    for loop in (few, many):
        average(loop, STEPS // 5)
    table = Table("round", f"{FEW:,}", f"{MANY:,}", "ratio", title="µs per request, by open tasks")
    for number in range(1, ROUNDS + 1):
        costs = [average(loop, STEPS) for loop in (few, many)]
        cells = (*(f"{cost:.1f}" for cost in costs), f"{costs[1] / costs[0]:.2f}")
        table.add_row(str(number), *cells)
    console.print(table)


def cost_by_policy() -> None:
    """Microseconds of a request by policy, in turn: `escalate` takes at most 1.5 times as long."""
    policies: tuple[PolicyName, ...] = "uncertainty", "escalate"
    for tasks in (FEW, MANY):
        loops = [Loop(tasks, policy) for policy in policies]
        for loop in loops:
            average(loop, STEPS // 5)
        title = f"µs per request, by policy, with {tasks:,} open tasks"
        table = Table("round", *policies, "ratio", title=title)
        for number in range(1, ROUNDS + 1):
            costs = [average(loop, STEPS) for loop in loops]
            cells = (*(f"{cost:.1f}" for cost in costs), f"{costs[1] / costs[0]:.2f}")
            table.add_row(str(number), *cells)
        console.print(table)


def average(loop: Loop, steps: int) -> float:
    """Microseconds of a request of anybody."""
    return fmean(loop.microseconds(loop.anybody()) for _ in range(steps))


def cost_by_answers() -> None:
    """Microseconds of requests of a worker who has answered most, while others move tasks."""
    loop = Loop(2 * ANSWERS)
    loop.answer("model", ANSWERS)
    costs: dict[str, list[float]] = {"model": [], "anybody": []}
    for _ in range(STEPS):
        for worker, each in costs.items():
            for _ in range(loop.rng.randint(1, MOVED)):
                loop.label(loop.anybody(), f"t{loop.rng.randrange(2 * ANSWERS)}")
            each.append(loop.microseconds(worker if worker == "model" else loop.anybody()))
    table = Table("answers", "first", "average", "worst", title="µs per request, by answers")
    for name, each in zip((f"{ANSWERS:,}", "few"), costs.values(), strict=True):
        later = each[STEPS // 10 :]  # the first requests pass over what nobody passed before
        table.add_row(name, *(f"{us:,.1f}" for us in (each[0], fmean(later), max(later))))
    console.print(table)


async def send(settings: Settings, topic: str, records: Sequence[tuple[str, bytes]]) -> None:
    """Put keyed records on a topic."""
    async with AIOKafkaProducer(
        **client_options(settings), linger_ms=20, max_batch_size=1 << 18
    ) as producer:
        sent = []
        for name, value in records:
            key = name.encode()
            partition = partition_of(key, settings.partitions)
            sent.append(await producer.send(topic, value, key=key, partition=partition))
        await asyncio.gather(*sent)


async def last_timestamps(settings: Settings, topic: str, count: int) -> tuple[int, int]:
    """When the first and the last of these records were written, in milliseconds."""
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    stamps: list[int] = []
    async with consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(settings.partitions)])
        while len(stamps) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                stamps += [record.timestamp for record in records]
    return min(stamps), max(stamps)


async def assignments_per_second(settings: Settings, requests: int) -> float:
    """Answers to requests that all wait already, a worker's every time another's."""
    topics = Topics(settings)
    tasks = [f"t{number}" for number in range(OPEN_TASKS)]
    await send(settings, topics.tasks.name, [(task, dumps({"task": task})) for task in tasks])
    await last_timestamps(settings, topics.posteriors.name, len(tasks))
    workers = [f"w{number % (requests // 10)}" for number in range(requests)]
    asked = [(worker, encode_request(worker)) for worker in workers]
    await send(settings, topics.requests.name, asked)
    first, last = await last_timestamps(settings, topics.assignments.name, requests)
    return 1000 * requests / (last - first)


def throughput(broker: EmbeddedBroker) -> None:
    """Assignments per second from one instance, while requests wait."""
    table = Table("round", "assignments per second")
    for number in range(1, ROUNDS + 1):
        settings = Settings(broker=broker.url, prefix=f"assignments-{number}")
        asyncio.run(ensure_topics(settings))
        with instance(broker.url, settings.prefix) as running:
            running.wait_ready(60)
            rate = asyncio.run(assignments_per_second(settings, REQUESTS))
        table.add_row(str(number), f"{rate:,.0f}")
    console.print(table)


if __name__ == "__main__":
    cost_by_open_tasks()
    cost_by_answers()
    cost_by_policy()
    with EmbeddedBroker() as kafka:
        throughput(kafka)
