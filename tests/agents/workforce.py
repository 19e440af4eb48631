"""Workers as clients: they request tasks, read assignments and send labels."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from orjson import dumps, loads

from sbic.wire.assignments import encode_request
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.kafka import ProjectOnBroker

Place = tuple[int, int]


class Workforce:
    """All workers of a test on one connection; `hear` returns their assignments."""

    def __init__(
        self, project: ProjectOnBroker, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer
    ) -> None:
        self.project = project
        self.producer = producer
        self.consumer = consumer
        self.waiting: dict[str, asyncio.Queue[dict[str, Any]]] = {}  # by worker

    async def ask(self, worker: str, count: int = 1) -> Place:
        """Ask for tasks; the partition and offset of the request."""
        return await self._send(
            self.project.topics.requests.name, worker, encode_request(worker, count)
        )

    async def hand_in(self, worker: str, task: str, label: int | None) -> Place:
        """Send a label; its partition and offset."""
        return await self._send(
            self.project.topics.labels.name, worker, encode_label(task, worker, label)
        )

    async def hear(self, worker: str) -> dict[str, Any]:
        """The worker's next record on the assignments topic."""
        return await self.inbox(worker).get()

    def inbox(self, worker: str) -> "asyncio.Queue[dict[str, Any]]":
        """The assignments that a worker has not read yet."""
        return self.waiting.setdefault(worker, asyncio.Queue())

    async def listen(self) -> None:
        """Put each assignment into its worker's inbox until cancelled."""
        while True:
            for records in (await self.consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    assignment = loads(record.value)
                    assert record.key.decode() == assignment["worker"]
                    self.inbox(assignment["worker"]).put_nowait(assignment)

    async def _send(self, topic: str, worker: str, value: bytes) -> Place:
        key = worker.encode()
        partition = partition_of(key, self.project.settings.partitions)
        sent = await self.producer.send_and_wait(topic, value, key=key, partition=partition)
        return sent.partition, sent.offset


@asynccontextmanager
async def workforce(project: ProjectOnBroker) -> AsyncIterator[Workforce]:
    """A workforce that listens from the beginning of the topic."""
    servers = project.settings.bootstrap_servers
    topic = project.topics.assignments.name
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer, consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(project.settings.partitions)])
        made = Workforce(project, producer, consumer)
        listening = asyncio.create_task(made.listen())
        try:
            yield made
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def register(project: ProjectOnBroker, tasks: Iterable[str], **fields: Any) -> None:
    """Describe tasks, all alike, and wait until they have a posterior."""
    names = list(tasks)
    async with project.producer() as producer:
        sent = [
            await producer.send(
                project.topics.tasks.name,
                dumps({"task": task, **fields}),
                key=task.encode(),
                partition=partition_of(task.encode(), project.settings.partitions),
            )
            for task in names
        ]
        await asyncio.gather(*sent)

    await project.until_posteriors(lambda found: found.keys() >= set(names))
