"""A Kafka client for workers: requests tasks, sends labels and describes tasks."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import NamedTuple, cast

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata
from orjson import dumps

from pipeline.hints import command
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.open_requests import At, OpenRequests
from pipeline.kafka.options import client_options
from pipeline.kafka.reading import Reader, reading
from pipeline.kafka.sizes import partitions_of
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.records.requests import encode_request
from pipeline.settings import Settings
from pipeline.topics import Topics

PATIENCE_SECONDS = 60  # longer than it takes another instance to take over

TASKS_AT_ONCE = 1000


class NoAnswer(Exception):
    """No instance answered a request in time."""


class Answer(NamedTuple):
    """The answer to a request: a task, or the reason why there is none, and how long it took."""

    task: str | None
    reason: str | None
    policy: str | None
    seconds: float
    id: str
    expires_at: int | None


class Asker:
    """Requests tasks and sends labels for any number of workers."""

    def __init__(
        self, producer: AIOKafkaProducer, assignments: Reader, topics: Topics, partitions: int
    ) -> None:
        self._producer = producer
        self._assignments = assignments
        self._topics = topics
        self.start_an_instance = command(topics.settings, "run")
        self._partitions = partitions
        self._requests = OpenRequests()

    async def follow(self) -> None:
        """Read the assignments until cancelled."""
        while True:
            for record in await self._assignments.next(seconds=1):
                self._requests.learn(record.value)

    async def ask(self, worker: str) -> Answer:
        """Request a task and wait for the answer; raises `NoAnswer`."""
        start = monotonic()
        asked = self._requests.begin(worker, 1)
        try:
            sent = await self._send(self._topics.requests.name, worker, encode_request(worker))
        except BaseException:
            self._requests.not_sent(asked)
            raise
        at = At(sent.partition, sent.offset)
        self._requests.placed(asked, at)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                (assignment,) = await asked.answered
        except TimeoutError:
            raise NoAnswer(
                f"a request was not answered in {PATIENCE_SECONDS} seconds: is an instance "
                f"running? Start one with: {self.start_an_instance}"
            ) from None
        finally:
            self._requests.close(at)
        seconds = monotonic() - start
        return Answer(
            assignment["task"],
            assignment.get("reason"),
            assignment.get("policy"),
            seconds,
            assignment["id"],
            assignment.get("expires_at"),
        )

    async def answer(self, worker: str, task: str, label: int | str) -> RecordMetadata:
        """Send a label and return its partition and offset."""
        return await self._send(self._topics.labels.name, worker, encode_label(task, worker, label))

    async def describe(self, tasks: Iterable[str], **fields: object) -> None:
        """Register tasks, or update their fields."""
        topic = self._topics.tasks.name
        names = list(tasks)
        for start in range(0, len(names), TASKS_AT_ONCE):
            await asyncio.gather(
                *(
                    self._send(topic, task, dumps({"task": task, **fields}))
                    for task in names[start : start + TASKS_AT_ONCE]
                )
            )

    async def _send(self, topic: str, name: str, value: bytes) -> RecordMetadata:
        key = name.encode()
        partition = partition_of(key, self._partitions)
        sent = await self._producer.send_and_wait(topic, value, key=key, partition=partition)
        return cast(RecordMetadata, sent)


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[Asker]:
    """A connected `Asker`; `follow` has to run while it is used."""
    topics = Topics(settings)
    for topic in (topics.labels, topics.tasks, topics.requests):
        partitions = await partitions_of(settings, topic.name, Operation.WRITE)
    producer = AIOKafkaProducer(**client_options(settings), enable_idempotence=True, acks="all")
    async with (
        connected(producer, settings),
        reading(settings, topics.assignments.name, from_start=False) as assignments,
    ):
        yield Asker(producer, assignments, topics, partitions)
