"""What a test needs of Kafka: put records on topics, read topics to their end, wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from orjson import loads

from pipeline.kafka.admin import ensure_topics
from pipeline.local.embedded import EmbeddedBroker
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.records.posteriors import Posterior
from pipeline.settings import Settings
from pipeline.topics import Topics

Triple = tuple[str, str, int | None]
Label = int | str
AnyTriple = tuple[str, str, Label | None]


class Project:
    """The topics of one prefix on the test broker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topics = Topics(settings)

    async def send(self, triples: Iterable[AnyTriple]) -> list[tuple[int, int]]:
        """Send labels as a good client does; the partition and offset of each."""
        async with self.producer() as producer:
            sent = []
            for task, worker, label in triples:
                value = encode_label(task, worker, label)
                partition = partition_of(worker.encode(), self.settings.partitions)
                sent.append(
                    await producer.send(
                        self.topics.labels.name, value, key=worker.encode(), partition=partition
                    )
                )
            places = await asyncio.gather(*sent)
        return [(place.partition, place.offset) for place in places]

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[AIOKafkaProducer]:
        """A producer with Kafka's usual settings."""
        async with AIOKafkaProducer(
            bootstrap_servers=self.settings.bootstrap_servers, linger_ms=5
        ) as producer:
            yield producer

    async def read(self, topic: str) -> list[ConsumerRecord]:
        """All records that the topic has now, each partition's in order."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        async with consumer:
            partitions = [TopicPartition(topic, p) for p in range(self.settings.partitions)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            for tp in partitions:
                while await consumer.position(tp) < ends[tp]:
                    for fetched in (await consumer.getmany(timeout_ms=1000)).values():
                        records += fetched
            return records

    async def posteriors(self) -> dict[str, Posterior]:
        """The last posterior of each task."""
        records = await self.read(self.topics.posteriors.name)
        return {record.key.decode(): loads(record.value) for record in records}

    async def until_counted(self, labels: int, deadline: float = 60) -> dict[str, Posterior]:
        """The posteriors, once they count this many labels."""
        found: dict[str, Posterior] = {}

        async def counted() -> bool:
            found.update(await self.posteriors())
            return sum(posterior["labels"] for posterior in found.values()) >= labels

        await until(counted, deadline)
        return found

    async def until_dealt_with(
        self, triples: Iterable[Triple], places: Iterable[tuple[int, int]], deadline: float = 60
    ) -> dict[str, Posterior]:
        """The posteriors, once each label, sent to that place, has been dealt with."""
        last: dict[tuple[str, str], int] = {}
        for (task, _worker, label), (partition, offset) in zip(triples, places, strict=True):
            if label != 0:
                last[task, str(partition)] = offset
        found: dict[str, Posterior] = {}

        async def dealt_with() -> bool:
            found.update(await self.posteriors())
            return all(
                task in found and found[task]["sources"].get(source, -1) >= offset
                for (task, source), offset in last.items()
            )

        await until(dealt_with, deadline)
        return found

    async def committed(self, topic: str) -> dict[int, int]:
        """Kafka's own view of the group's offsets, by partition."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.settings.bootstrap_servers)
        await admin.start()
        try:
            offsets = await admin.list_consumer_group_offsets(self.settings.prefix)
        finally:
            await admin.close()
        return {
            tp.partition: metadata.offset
            for tp, metadata in offsets.items()
            if tp.topic == topic and metadata.offset >= 0
        }


async def project(broker: EmbeddedBroker, **settings: object) -> Project:
    """A project of its own, with its topics."""
    made = Settings(broker=broker.url, prefix=f"test-{uuid4().hex[:8]}", **settings)  # type: ignore[arg-type]
    await ensure_topics(made)
    return Project(made)


async def until(condition: Callable[[], Awaitable[bool]], deadline: float = 60) -> None:
    """Wait for a condition."""
    last = time.monotonic() + deadline
    while not await condition():
        assert time.monotonic() < last, "it did not come to pass in time"
        await asyncio.sleep(0.1)
