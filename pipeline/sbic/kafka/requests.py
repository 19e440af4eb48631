"""Requests tasks on Kafka, and waits for their assignments."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple, cast

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata
from orjson import dumps, loads

from sbic.kafka.admin import partitions_of
from sbic.kafka.connect import connected, new_producer
from sbic.kafka.reader import Reader, reading
from sbic.kafka.rights import Operation
from sbic.project.settings import Settings, command_line
from sbic.project.topics import Topics
from sbic.wire.assignments import encode_request, parse_assignment, place_of
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of

Record = dict[str, Any]


class At(NamedTuple):
    """The partition and offset of a request."""

    partition: int
    offset: int


@dataclass(eq=False)
class Asked:
    """A request for `count` tasks; `answered` holds its assignments, with any refusal last."""

    worker: str
    count: int
    answered: "asyncio.Future[list[Record]]"
    records: dict[int, Record] = field(default_factory=dict)

    def add(self, number: int, record: Record) -> None:
        """Add an assignment under its number; a repeated number is ignored."""
        self.records.setdefault(number, record)
        refused = record["task"] is None
        if (refused or len(self.records) == self.count) and not self.answered.done():
            self.answered.set_result(self.in_order())

    def in_order(self) -> list[Record]:
        """The assignments received so far, in order of their numbers."""
        return [self.records[number] for number in sorted(self.records)]


class _Early(NamedTuple):
    """An assignment that arrived before its request was acknowledged."""

    at: At
    number: int
    record: Record


@dataclass
class _Unacknowledged:
    """A worker's requests that Kafka has not acknowledged, and their early assignments."""

    requests: int = 0
    early: list[_Early] = field(default_factory=list)


class OpenRequests:
    """Finds the request that an assignment answers: its id has the request's partition and offset.

    An assignment may be read before Kafka's acknowledgement of the request:

    >>> async def example():
    ...     requests = OpenRequests()
    ...     first, second = requests.begin("ann", 1), requests.begin("ann", 1)
    ...     requests.learn(b'{"worker":"ann","task":"t2","id":"3-42-0","expires_at":9}')
    ...     requests.placed(first, At(3, 41))
    ...     requests.placed(second, At(3, 42))
    ...     requests.learn(b'{"worker":"ann","task":"t1","id":"3-41-0","expires_at":9}')
    ...     return [(await asked.answered)[0]["task"] for asked in (first, second)]
    >>> asyncio.run(example())
    ['t1', 't2']
    """

    def __init__(self) -> None:
        self._placed: dict[At, Asked] = {}
        self._unacknowledged: dict[str, _Unacknowledged] = {}

    def begin(self, worker: str, count: int) -> Asked:
        """Open a request that is about to be sent; call `placed` or `not_sent` afterwards."""
        self._unacknowledged.setdefault(worker, _Unacknowledged()).requests += 1
        return Asked(worker, count, asyncio.get_running_loop().create_future())

    def placed(self, asked: Asked, at: At) -> None:
        """Record where Kafka has acknowledged the request."""
        self._placed[at] = asked
        for early in self._unacknowledged[asked.worker].early:
            if early.at == at:
                asked.add(early.number, early.record)
        self._forget_unacknowledged(asked)

    def not_sent(self, asked: Asked) -> None:
        """Give up a request that was not acknowledged."""
        self._forget_unacknowledged(asked)

    def _forget_unacknowledged(self, asked: Asked) -> None:
        unacknowledged = self._unacknowledged[asked.worker]
        unacknowledged.requests -= 1
        if not unacknowledged.requests:
            del self._unacknowledged[asked.worker]

    def close(self, at: At) -> None:
        """Close a request: later assignments for it are ignored."""
        self._placed.pop(at, None)

    def learn(self, value: bytes | None) -> None:
        """Process the value of a record of the assignments topic."""
        try:
            assignment = parse_assignment(value)
            source, partition, offset, number = place_of(assignment.id)
        except ValueError:
            return  # not an sbic record: ignore
        at = At(partition, offset)
        is_known = at in self._placed or assignment.worker in self._unacknowledged
        if assignment.ended or source or not is_known:  # a source: a label was the request
            return
        record = loads(value)  # type: ignore[arg-type]  # it was just parsed
        if at in self._placed:
            self._placed[at].add(number, record)
        else:
            self._unacknowledged[assignment.worker].early.append(_Early(at, number, record))


# A Kafka client for workers: requests tasks, sends labels and describes tasks.


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
        self.start_an_instance = command_line(topics.settings, "run")
        self._partitions = partitions
        self._requests = OpenRequests()

    async def follow(self) -> None:
        """Read the assignments until cancelled."""
        async for records in self._assignments.follow():
            for record in records:
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
    producer = new_producer(settings)
    async with (
        connected(producer, settings),
        reading(settings, topics.assignments.name, from_start=False) as assignments,
    ):
        yield Asker(producer, assignments, topics, partitions)
