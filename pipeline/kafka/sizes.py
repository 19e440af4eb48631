"""How many records topics have."""

from collections.abc import Iterable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.kafka.access.granted import described
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.settings import Settings


class Extent(NamedTuple):
    """The first offset of a partition, and the one after its last."""

    begin: int
    end: int


Extents = dict[TopicPartition, Extent]


async def extents(settings: Settings, topics: Iterable[str]) -> Extents:
    """Where the partitions of these topics begin and end; missing topics are left out."""
    found = await described(settings, [(name, Operation.DESCRIBE) for name in topics])
    places = [
        TopicPartition(name, number)
        for name, topic in found.items()
        for number in range(topic.partitions)
    ]
    if not places:
        return {}
    consumer = AIOKafkaConsumer(**client_options(settings), enable_auto_commit=False)
    async with connected(consumer, settings):
        begins = await consumer.beginning_offsets(places)
        ends = await consumer.end_offsets(places)
    return {place: Extent(begins[place], ends[place]) for place in places}


async def records_in(settings: Settings, topic: str) -> int:
    """How many records a topic has, or a few less; none if it is missing."""
    return sum(end - begin for begin, end in (await extents(settings, [topic])).values())


async def expired_from(settings: Settings, topic: str) -> int:
    """How many records a topic had at its start that Kafka does not keep any more."""
    return sum(begin for begin, _ in (await extents(settings, [topic])).values())
