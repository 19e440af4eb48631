"""Registers and describes tasks: publishes to the tasks topic, keyed by task."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.kafka.sizes import partitions_of
from pipeline.partitioner import partition_of
from pipeline.progress import progress
from pipeline.records.tasks import Description, NamedDescription, encode_task
from pipeline.settings import Settings
from pipeline.topics import Topics

AT_ONCE = 5000


async def describe(
    settings: Settings, descriptions: Sequence[Description | NamedDescription]
) -> None:
    """Send all descriptions in order; they are acknowledged on return."""
    topic = Topics(settings).tasks.name
    partitions = await partitions_of(settings, topic, Operation.WRITE)
    producer = AIOKafkaProducer(**client_options(settings), enable_idempotence=True, linger_ms=5)
    async with connected(producer, settings):
        with progress("Sending", total=len(descriptions)) as advance:
            for start in range(0, len(descriptions), AT_ONCE):
                sent = []
                for description in descriptions[start : start + AT_ONCE]:
                    key = description["task"].encode()
                    value = encode_task(description)
                    partition = partition_of(key, partitions)
                    sent.append(await producer.send(topic, value, key=key, partition=partition))
                await asyncio.gather(*sent)
                advance(len(sent))
