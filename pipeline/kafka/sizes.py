"""The size of topics: their partitions, and the records in them."""

from collections.abc import Iterable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.kafka.access.granted import describe_topics
from pipeline.kafka.access.rights import Need, Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import MissingTopic
from pipeline.kafka.options import client_options
from pipeline.settings import Settings


async def partitions_of(settings: Settings, topic: str, operation: Operation) -> int:
    """How many partitions a topic has, for a client that is about to read or write it.

    Raises `Unreachable`, `MissingTopic` or `NotAllowed`.
    """
    found = await describe_topics(settings, [Need(topic, operation)])
    if topic not in found:
        raise MissingTopic(topic, settings)
    return found[topic].partitions


class Extent(NamedTuple):
    """The first offset of a partition, and the offset after its last."""

    begin: int
    end: int


Extents = dict[TopicPartition, Extent]


async def extents(settings: Settings, topics: Iterable[str]) -> Extents:
    """The extents of all partitions of these topics; missing topics are left out."""
    found = await describe_topics(settings, [Need(name, Operation.DESCRIBE) for name in topics])
    partitions = [
        TopicPartition(name, number)
        for name, topic in found.items()
        for number in range(topic.partitions)
    ]
    if not partitions:
        return {}
    consumer = AIOKafkaConsumer(**client_options(settings), enable_auto_commit=False)
    async with connected(consumer, settings):
        begins = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
    return {tp: Extent(begins[tp], ends[tp]) for tp in partitions}


async def records_in(settings: Settings, topic: str) -> int:
    """About how many records a topic has; 0 if it does not exist.

    Compaction and transaction markers make it fewer than the offsets counted here.
    """
    return sum(end - begin for begin, end in (await extents(settings, [topic])).values())


async def expired_from(settings: Settings, topic: str) -> int:
    """How many of a topic's first records retention has removed."""
    return sum(begin for begin, _ in (await extents(settings, [topic])).values())
