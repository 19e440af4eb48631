"""Small apps on the test's Kafka: ours, and stock Faust's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.runtime.faust.app import BatchedApp
from tests.agents.kafka import until

Take = Callable[[Any], Coroutine[Any, Any, None]]
"""What an agent does with its stream."""


class OwnTopic:
    """A topic and a group that nobody else has."""

    def __init__(self, broker: EmbeddedBroker, partitions: int) -> None:
        self.address = broker.url.removeprefix("kafka://")
        self.settings = Settings(broker=broker.url)
        self.partitions = partitions
        self.group = f"test-{uuid4().hex[:8]}"
        self.topic = f"{self.group}.in"

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Kafka's administration."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def create(self) -> None:
        """Create the topic."""
        async with self.admin() as admin:
            await admin.create_topics([NewTopic(self.topic, self.partitions, 1)])

    async def send(self, *values: bytes, partition: int = 0) -> None:
        """Send records to a partition."""
        async with AIOKafkaProducer(bootstrap_servers=self.address) as producer:
            for value in values:
                await producer.send_and_wait(self.topic, value, partition=partition)

    async def committed(self) -> int:
        """The offset that the group has committed of the first partition, 0 if none."""
        async with self.admin() as admin:
            offsets = await admin.list_consumer_group_offsets(self.group)
        first = offsets.get(TopicPartition(self.topic, 0))
        return 0 if first is None else first.offset

    async def end(self) -> int:
        """The offset after the last record of the first partition."""
        first = TopicPartition(self.topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=self.address) as consumer:
            ends: dict[TopicPartition, int] = await consumer.end_offsets([first])
        return ends[first]

    async def values(self) -> list[bytes]:
        """The values of the first partition, in order."""
        first = TopicPartition(self.topic, 0)
        end = await self.end()
        found: list[bytes] = []
        async with AIOKafkaConsumer(
            bootstrap_servers=self.address, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([first])
            while len(found) < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [record.value for record in records]
        return found

    async def members(self) -> set[str]:
        """The client ids of the group's members, as Kafka has them."""
        async with self.admin() as admin:
            (answer,) = await admin.describe_consumer_groups([self.group])
        *_, members = answer.groups[0][:6]
        return {client_id for _member_id, client_id, *_ in members}

    def ours(self, take: Take) -> BatchedApp:
        """An app of ours with one agent."""
        app = BatchedApp(self.group, broker=f"batched://{self.address}")
        app.agent(app.topic(self.topic), name="taker")(take)
        return app

    def stock(self, take: Take) -> faust.App:
        """An app of Faust's own with one agent."""
        app = faust.App(
            self.group,
            broker=f"kafka://{self.address}",
            store="memory://",
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            consumer_auto_offset_reset="earliest",
            broker_commit_interval=0.1,
        )
        app.agent(app.topic(self.topic), name="taker")(take)
        return app


async def place(broker: EmbeddedBroker, partitions: int = 1) -> OwnTopic:
    """A topic and a group that nobody else has."""
    made = OwnTopic(broker, partitions)
    await made.create()
    return made


@asynccontextmanager
async def running(app: faust.App) -> AsyncIterator[None]:
    """Start an app, wait until it is ready, and stop all of it at the end."""
    starting = asyncio.create_task(app.start())

    async def is_ready() -> bool:
        return app.tables.actives_ready and not app.rebalancing

    try:
        await until(is_ready)
        yield
    finally:
        async with asyncio.timeout(60):
            await (stop_all(app) if isinstance(app, BatchedApp) else app.stop())
            await starting


async def stop_all(app: BatchedApp) -> None:
    """Stop what an app of ours leaves to the end of the process, too."""
    await app.leave()
    await app._stop_children()
    await app._stop_futures()
