"""What users do all the while: labels good and bad, descriptions of tasks, and requests."""

import asyncio
import random
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaTimeoutError
from orjson import dumps, loads

from sbic.kafka.connect import client_options
from sbic.wire.assignments import encode_request
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.kafka import ProjectOnBroker

TASKS = 600
VOLUNTEERS = 150  # answer what they like
ASKERS = 40  # answer what they are given, and nothing else
STRAYS = 10  # whose labels go to the wrong partition
BAD = b"bad "  # how a label begins that is none
TICK_SECONDS = 0.05
PATIENCE_MS = 180_000  # longer than the broker is ever away


class SoakUsers:
    """The users of one project; what they send depends on the seed and on what they are given."""

    def __init__(self, here: ProjectOnBroker, seed: int, labels_per_second: float) -> None:
        self.here = here
        self.rng = random.Random(seed)
        self.labels_per_tick = labels_per_second * TICK_SECONDS
        self.truth = [self.rng.choice([1, -1]) for _ in range(TASKS)]
        self.accuracy = [self.rng.betavariate(4, 2) for _ in range(VOLUNTEERS + ASKERS + STRAYS)]
        self.given: list[tuple[str, str]] = []  # tasks and workers
        self.labels = 0
        self.bad: set[bytes] = set()
        self.requests: set[tuple[int, int]] = set()  # partition and offset
        self.under_way: set[asyncio.Task[None]] = set()
        self.settings = here.settings
        self.producer = AIOKafkaProducer(
            **client_options(self.settings),
            enable_idempotence=True,
            request_timeout_ms=PATIENCE_MS,
        )

    async def run(self, over: asyncio.Event) -> None:
        """Send until it is over, and wait until Kafka has all of it."""
        async with self.producer:
            answering = asyncio.create_task(self._answer())
            try:
                for task in range(0, TASKS, 2):  # of the others labels tell
                    self._describe(task)
                while not over.is_set():
                    self._tick()
                    await asyncio.sleep(TICK_SECONDS)
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
                await asyncio.gather(*self.under_way)

    def _tick(self) -> None:
        wanted = self.labels_per_tick
        for _ in range(int(wanted) + (self.rng.random() < wanted % 1)):
            self._label()
        if self.rng.random() < 0.1:
            self._describe(self.rng.randrange(TASKS))
        if self.rng.random() < 0.5:
            worker = f"asker{self.rng.randrange(ASKERS)}"
            astray = self.rng.random() < 0.01
            value = encode_request(worker)
            self._send(self.here.topics.requests.name, worker, value, astray=astray)

    def _label(self) -> None:
        chance = self.rng.random()
        topic = self.here.topics.labels.name
        worker = f"volunteer{self.rng.randrange(VOLUNTEERS)}"
        if chance < 0.01:
            self._send(topic, worker, BAD + b"%d" % self.rng.randrange(1 << 60))
        elif chance < 0.02:
            worker = f"stray{self.rng.randrange(STRAYS)}"
            self._send(topic, worker, self._opinion(worker), astray=True)
        elif chance < 0.03 and self.given:
            task, worker = self.rng.choice(self.given)
            self._send(topic, worker, encode_label(task, worker, None))
        else:
            value = self._opinion(worker)
            for _ in range(2 if chance > 0.97 else 1):
                self._send(topic, worker, value)

    def _opinion(self, worker: str, task: str | None = None) -> bytes:
        """A label; a volunteer's may be taken back later."""
        number = int(task[1:]) if task else self.rng.randrange(TASKS)
        name = f"t{number}"
        is_right = self.rng.random() < self.accuracy[hash_of(worker) % len(self.accuracy)]
        if worker.startswith("volunteer"):
            self.given.append((name, worker))
        label = self.truth[number] if is_right else -self.truth[number]
        return encode_label(name, worker, label)

    def _describe(self, task: int) -> None:
        chance = self.rng.random()
        gold = self.truth[task] if chance < 0.2 else None
        prior = round(self.rng.uniform(0.05, 0.95), 2) if chance > 0.7 else None
        name = f"t{task}"
        value = dumps({"task": name, "gold": gold, "prior": prior})
        self._send(self.here.topics.tasks.name, name, value)

    async def _answer(self) -> None:
        """Hand in a label for every assignment."""
        consumer = AIOKafkaConsumer(
            **client_options(self.settings),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        topic = self.here.topics.assignments.name
        async with consumer:
            consumer.assign([TopicPartition(topic, p) for p in range(self.settings.partitions)])
            while True:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    self._answer_all(loads(record.value) for record in records)

    def _answer_all(self, assignments: Iterable[dict[str, str]]) -> None:
        for assignment in assignments:
            if assignment["task"] is not None and "ended" not in assignment:
                worker = assignment["worker"]
                value = self._opinion(worker, assignment["task"])
                self._send(self.here.topics.labels.name, worker, value)

    def _send(self, topic: str, key: str, value: bytes, *, astray: bool = False) -> None:
        """Send without waiting: the broker may be away for a while."""
        partition = partition_of(key.encode(), self.settings.partitions)
        partition = (partition + astray) % self.settings.partitions
        sending = asyncio.create_task(self._sent(topic, partition, key.encode(), value))
        self.under_way.add(sending)
        sending.add_done_callback(self.under_way.discard)

    async def _sent(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Send, and note what has to come of it; of what Kafka had no room for, nothing has."""
        try:
            place = await self.producer.send_and_wait(topic, value, key=key, partition=partition)
        except KafkaTimeoutError:  # it was away for longer than the queue is long
            return
        if value.startswith(BAD):
            self.bad.add(value)
        self.labels += topic == self.here.topics.labels.name
        if topic == self.here.topics.requests.name:
            self.requests.add((place.partition, place.offset))


def hash_of(worker: str) -> int:
    """A number that is the same in every run."""
    return partition_of(worker.encode(), 1 << 20)
