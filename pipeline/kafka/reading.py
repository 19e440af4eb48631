"""Reads all partitions of a topic, without a group: nobody else is disturbed."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from pipeline.kafka.access.rights import Operation
from pipeline.kafka.admin import partitions_of
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.settings import Settings

RECORDS_AT_ONCE = 5000


class Reader:
    """All partitions of one topic, each partition's records in order."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        partitions: list[TopicPartition],
        ends: dict[TopicPartition, int],
    ) -> None:
        self.consumer = consumer
        self.partitions = partitions
        self.ends = ends

    async def next(self, seconds: float) -> list[ConsumerRecord]:
        """The next records; none if none came for so many seconds."""
        fetched = await self.consumer.getmany(
            timeout_ms=int(seconds * 1000), max_records=RECORDS_AT_ONCE
        )
        return [record for records in fetched.values() for record in records]

    def read_only(self, partitions: Iterable[int]) -> None:
        """Read these partitions, and no others."""
        wanted = set(partitions)
        self.partitions = [place for place in self.partitions if place.partition in wanted]
        self.ends = {place: self.ends[place] for place in self.partitions}
        self.consumer.assign(self.partitions)

    async def move_end(self, asking: AIOKafkaConsumer | None = None) -> None:
        """Let the end be that which the topic has now.

        Kafka answers a connection in turn, and one that waits for new records waits for half a
        second: whoever asks often has a consumer of its own for `asking`.
        """
        self.ends = await (asking or self.consumer).end_offsets(self.partitions)

    async def remaining(self) -> int:
        """How many offsets there are up to the end."""
        positions = [int(await self.consumer.position(place)) for place in self.partitions]
        return sum(self.ends.values()) - sum(positions)

    async def go_back(self, records: int, asking: AIOKafkaConsumer) -> None:
        """Read the last records of each partition next, so many at the most."""
        starts = await asking.beginning_offsets(self.partitions)
        for place in self.partitions:
            self.consumer.seek(place, max(starts[place], self.ends[place] - records))

    async def to_the_end(self) -> AsyncIterator[list[ConsumerRecord]]:
        """All records up to the end that the topic had when the reader was made."""
        for partition in self.partitions:
            while await self.consumer.position(partition) < self.ends[partition]:
                yield await self.next(seconds=1)


@asynccontextmanager
async def reading(settings: Settings, topic: str, *, from_start: bool) -> AsyncIterator[Reader]:
    """A reader that begins at the start of the topic, or at the end that it has now."""
    count = await partitions_of(settings, topic, Operation.READ)
    partitions = [TopicPartition(topic, partition) for partition in range(count)]
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",  # as the instances do
    )
    async with connected(consumer, settings):
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        if not from_start:
            for partition, end in ends.items():
                consumer.seek(partition, end)
        yield Reader(consumer, partitions, ends)
