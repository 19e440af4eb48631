"""From a label to the record that answers it, at a steady rate."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import itemgetter
from time import perf_counter

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from sbic.kafka.connect import client_options
from sbic.project.settings import Settings
from sbic.project.topics import Topics

Place = tuple[str, int]
"""Labels partition and offset."""


@asynccontextmanager
async def tail(settings: Settings, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer at the end of a topic."""
    consumer = AIOKafkaConsumer(**client_options(settings), enable_auto_commit=False)
    async with consumer:
        partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_end()
        for tp in partitions:
            await consumer.position(tp)
        yield consumer


async def milliseconds(
    settings: Settings,
    answers_topic: str,
    answers: Callable[[ConsumerRecord], list[Place]],
    records: list[tuple[bytes, bytes, int]],
    rate: int,
) -> list[float]:
    """Milliseconds from the sending of each label until a record came back that answers it."""
    sent: dict[Place, float] = {}
    came: dict[Place, float] = {}

    async def listen() -> None:
        async with tail(settings, answers_topic) as consumer:
            listening.set()
            while True:
                for fetched in (await consumer.getmany(timeout_ms=1000)).values():
                    now = perf_counter()
                    for record in fetched:
                        for place in answers(record):
                            came.setdefault(place, now)

    async def send(producer: AIOKafkaProducer, key: bytes, value: bytes, partition: int) -> None:
        started = perf_counter()
        topic = Topics(settings).labels.name
        metadata = await producer.send_and_wait(topic, value, key=key, partition=partition)
        sent[str(metadata.partition), metadata.offset] = started

    listening = asyncio.Event()
    listener = asyncio.create_task(listen())
    await listening.wait()
    async with AIOKafkaProducer(**client_options(settings)) as producer:
        begun = perf_counter()
        sending = []
        for number, (key, value, partition) in enumerate(records):
            await asyncio.sleep(max(0.0, begun + number / rate - perf_counter()))
            sending.append(asyncio.create_task(send(producer, key, value, partition)))
        await asyncio.gather(*sending)
    async with asyncio.timeout(60):
        while not all(place in came for place in sent):  # noqa: ASYNC110  # a benchmark may poll
            await asyncio.sleep(0.05)
    listener.cancel()
    in_order = sorted(sent.items(), key=itemgetter(1))
    return [1000 * (came[place] - started) for place, started in in_order]


def summary(values: list[float]) -> tuple[float, float]:
    """Median and 99th percentile, in order of sending and without the first fifth: the warm-up."""
    steady = values[len(values) // 5 :]
    return float(np.median(steady)), float(np.percentile(steady, 99))
