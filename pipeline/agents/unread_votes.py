"""Reads the votes that are in the votes topic when an instance acquires partitions.

Votes on own tasks do not go through the topic: they are written to the evidence at once. Earlier
votes of the same workers may still be in the topic, if another instance owned the workers or the
tasks then. They are counted first: a later owner restores the evidence in the order of its records.
"""

from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.topics import Topics

POLL_MS = 200


async def unread_votes(
    settings: Settings, partitions: set[int]
) -> AsyncIterator[tuple[int, list[ConsumerRecord]]]:
    """Yield the records of each partition from the committed offset to the current end."""
    topic = Topics(settings).votes.name
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        group_id=settings.prefix,  # whose offsets they are; it is not joined
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with connected(consumer, settings):
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        for place, end in ends.items():
            while await consumer.position(place) < end:
                for tp, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                    yield tp.partition, records
