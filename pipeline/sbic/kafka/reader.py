"""Reads all partitions of a topic without joining a consumer group."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager, nullcontext
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from sbic.kafka.admin import partitions_of
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.errors import Refused
from sbic.kafka.rights import Operation
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.wire.bad import BadRecord

RECORDS_AT_ONCE = 5000

T = TypeVar("T")


def readable(parse: Callable[[bytes], T], value: bytes | None) -> T | None:
    """Return the parsed value, or None if it is not an sbic record (a tombstone is not)."""
    try:
        return parse(value)  # type: ignore[arg-type]  # parsers refuse None as they do any other
    except BadRecord:
        return None


def parsed(
    records: Iterable[ConsumerRecord], parse: Callable[[bytes], T]
) -> Iterator[tuple[ConsumerRecord, T]]:
    """Each record with its parsed value; records that are not sbic's are left out."""
    for record in records:
        if (found := readable(parse, record.value)) is not None:
            yield record, found


def keep_last(last: MutableMapping[bytes, bytes], records: Iterable[ConsumerRecord]) -> None:
    """Update the last value of each key of a compacted topic; a tombstone removes its key."""
    for record in records:
        if record.value is None:
            last.pop(record.key, None)
        else:
            last[record.key] = record.value


def committed_consumer(settings: Settings) -> AIOKafkaConsumer:
    """Return a consumer that reads as instances do: up to the first open transaction."""
    return new_consumer(settings, isolation_level="read_committed")


class Reader:
    """Reads one topic, each partition's records in order; `ends` are the end offsets to read to."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        partitions: list[TopicPartition],
        ends: dict[TopicPartition, int],
        at_once: int = RECORDS_AT_ONCE,
    ) -> None:
        self.consumer = consumer
        self.at_once = at_once
        self.partitions = partitions
        self.ends = ends

    async def next(self, seconds: float) -> list[ConsumerRecord]:
        """Return the next records, or none if none arrive within `seconds`."""
        fetched = await self.consumer.getmany(
            timeout_ms=int(seconds * 1000), max_records=self.at_once
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
        new records: callers that poll often pass a separate `committed_consumer` as `asking`.
        """
        self.ends = await (asking or self.consumer).end_offsets(self.partitions)

    async def remaining(self) -> int:
        """How many offsets remain up to the end."""
        return sum(self.ends.values()) - sum((await self.positions()).values())

    async def positions(self) -> dict[TopicPartition, int]:
        """Return the offset of the next record of each partition."""
        return {tp: int(await self.consumer.position(tp)) for tp in self.partitions}

    async def go_back(self, records: int, asking: AIOKafkaConsumer) -> None:
        """Seek back so that at most this many records of each partition are read again."""
        starts = await asking.beginning_offsets(self.partitions)
        for tp in self.partitions:
            self.consumer.seek(tp, max(starts[tp], self.ends[tp] - records))

    async def follow(self, seconds: float = 1) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield the next records without end, and none after `seconds` without any."""
        while True:
            yield await self.next(seconds)

    async def to_the_end(self, title: str | None = None) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield all records up to `ends`, with a progress bar if it has a title.

        Raises `Refused` if they do not come, since the topic was recreated meanwhile.
        """
        bar = progress(title, total=await self.remaining()) if title else nullcontext(None)
        with bar as advance:
            for partition in self.partitions:
                while await self.consumer.position(partition) < self.ends[partition]:
                    records = await self.next(seconds=1)
                    yield records
                    if advance:
                        advance(len(records))
                    if not records:
                        await self._check_end(partition)

    async def _check_end(self, partition: TopicPartition) -> None:
        """Raise `Refused` if a partition ends before the offset to read to."""
        if (await self.consumer.end_offsets([partition]))[partition] < self.ends[partition]:
            raise Refused(f"{partition.topic} was recreated meanwhile: try again")


@asynccontextmanager
async def reading(settings: Settings, topic: str, *, from_start: bool) -> AsyncIterator[Reader]:
    """Connect a reader that begins at the start of the topic, or at its current end."""
    count = await partitions_of(settings, topic, Operation.READ)
    partitions = [TopicPartition(topic, partition) for partition in range(count)]
    consumer = committed_consumer(settings)
    async with connected(consumer, settings):
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        if not from_start:
            for partition, end in ends.items():
                consumer.seek(partition, end)
        yield Reader(consumer, partitions, ends)
