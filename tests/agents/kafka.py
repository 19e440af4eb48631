"""A test's project on Kafka: send records, read topics to their end, wait for a condition."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient
from orjson import loads

from sbic.client import Posterior
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.follower import following
from tests.test_schemas import KINDS, VALIDATORS

Triple = tuple[str, str, int | None]
Label = int | str
AnyTriple = tuple[str, str, Label | None]


class ProjectOnBroker:
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
        async with following(self.settings, topic) as follower:
            return await follower.new_records()

    async def until_read(
        self, topic: str, holds: Callable[[list[ConsumerRecord]], bool], deadline: float = 60
    ) -> list[ConsumerRecord]:
        """All records of the topic, once a condition holds for them."""
        records: list[ConsumerRecord] = []
        async with following(self.settings, topic) as follower:

            async def holds_now() -> bool:
                records.extend(await follower.new_records())
                return holds(records)

            await until(holds_now, deadline)
        return records

    async def posteriors(self) -> dict[str, Posterior]:
        """The last posterior of each task."""
        return last_posteriors(await self.read(self.topics.posteriors.name))

    async def until_posteriors(
        self, hold: Callable[[dict[str, Posterior]], bool], deadline: float = 60
    ) -> dict[str, Posterior]:
        """The last posterior of each task, once a condition holds for them."""
        found: dict[str, Posterior] = {}
        async with following(self.settings, self.topics.posteriors.name) as follower:

            async def hold_now() -> bool:
                found.update(last_posteriors(await follower.new_records()))
                return hold(found)

            await until(hold_now, deadline)
        return found

    async def until_counted(self, labels: int, deadline: float = 60) -> dict[str, Posterior]:
        """The posteriors, once they count this many labels."""
        return await self.until_posteriors(lambda found: labels_in(found) >= labels, deadline)

    async def until_dealt_with(
        self, triples: Iterable[Triple], places: Iterable[tuple[int, int]], deadline: float = 60
    ) -> dict[str, Posterior]:
        """The posteriors, once they include each label, sent to its partition and offset."""
        last: dict[tuple[str, str], int] = {}
        for (task, _worker, label), (partition, offset) in zip(triples, places, strict=True):
            if label != 0:
                last[task, str(partition)] = offset

        def include_all(found: dict[str, Posterior]) -> bool:
            return all(
                task in found and found[task]["sources"].get(source, -1) >= offset
                for (task, source), offset in last.items()
            )

        return await self.until_posteriors(include_all, deadline)

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


def last_posteriors(records: Iterable[ConsumerRecord]) -> dict[str, Posterior]:
    """The last posterior of each task among these records."""
    return {record.key.decode(): loads(record.value) for record in records}


def labels_in(posteriors: dict[str, Posterior]) -> int:
    """How many labels posteriors count in all."""
    return sum(posterior["labels"] for posterior in posteriors.values())


async def project(broker: EmbeddedBroker, **settings: object) -> ProjectOnBroker:
    """Create a new project: its topics, with no records."""
    made = Settings(broker=broker.url, prefix=f"test-{uuid4().hex[:8]}", **settings)  # type: ignore[arg-type]
    await ensure_topics(made)
    return ProjectOnBroker(made)


async def until(condition: Callable[[], Awaitable[bool]], deadline: float = 60) -> None:
    """Wait for a condition."""
    last = time.monotonic() + deadline
    while not await condition():
        assert time.monotonic() < last, f"not within {deadline} seconds: {condition.__qualname__}"
        await asyncio.sleep(0.1)


# kcat, where it is installed.


KCAT = shutil.which("kcat") or shutil.which("kafkacat")
needs_kcat = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")

# Checks the records on a project's topics against the schemas.


async def agree_with_schemas(here: ProjectOnBroker) -> set[str]:
    """Validate every record of every public topic; the kinds of which there were any."""
    found = set()
    for kind in KINDS:
        for record in await here.read(f"{here.settings.prefix}.{kind}s"):
            if record.value is not None:  # a tombstone
                VALIDATORS[kind].validate(loads(record.value))
                found.add(kind)
    return found
