"""Reads all partitions of a topic without joining a consumer group."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from sbic.kafka.admin import partitions_of
from sbic.kafka.connect import client_options, connected
from sbic.kafka.rights import Operation
from sbic.project.settings import Settings

RECORDS_AT_ONCE = 5000


class Reader:
    """Reads one topic, each partition's records in order; `ends` are the end offsets to read to."""

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
        """The next records, or none if none arrive within `seconds`."""
        fetched = await self.consumer.getmany(
            timeout_ms=int(seconds * 1000), max_records=RECORDS_AT_ONCE
        )
        return [record for records in fetched.values() for record in records]

    def read_only(self, partitions: Iterable[int]) -> None:
        """Read these partitions only."""
        wanted = set(partitions)
        self.partitions = [tp for tp in self.partitions if tp.partition in wanted]
        self.ends = {tp: self.ends[tp] for tp in self.partitions}
        self.consumer.assign(self.partitions)

    async def move_end(self, asking: AIOKafkaConsumer | None = None) -> None:
        """Set `ends` to the current end offsets.

        A broker answers the requests of a connection in turn, and a fetch waits half a second for
        new records: callers that poll often pass a separate consumer as `asking`.
        """
        self.ends = await (asking or self.consumer).end_offsets(self.partitions)

    async def remaining(self) -> int:
        """How many offsets remain up to the end."""
        positions = [int(await self.consumer.position(tp)) for tp in self.partitions]
        return sum(self.ends.values()) - sum(positions)

    async def go_back(self, records: int, asking: AIOKafkaConsumer) -> None:
        """Seek back so that at most this many records of each partition are read again."""
        starts = await asking.beginning_offsets(self.partitions)
        for tp in self.partitions:
            self.consumer.seek(tp, max(starts[tp], self.ends[tp] - records))

    async def to_the_end(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield all records up to `ends`."""
        for partition in self.partitions:
            while await self.consumer.position(partition) < self.ends[partition]:
                yield await self.next(seconds=1)


@asynccontextmanager
async def reading(settings: Settings, topic: str, *, from_start: bool) -> AsyncIterator[Reader]:
    """A reader that begins at the start of the topic, or at its current end."""
    count = await partitions_of(settings, topic, Operation.READ)
    partitions = [TopicPartition(topic, partition) for partition in range(count)]
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",  # as instances read
    )
    async with connected(consumer, settings):
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        if not from_start:
            for partition, end in ends.items():
                consumer.seek(partition, end)
        yield Reader(consumer, partitions, ends)
