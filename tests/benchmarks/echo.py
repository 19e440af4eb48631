"""The yardstick of latency: two hops as plain as aiokafka can make them.

It is a process of its own, as an instance is: on two cores, a label would take half the time in
the process that sends it, which is then never woken by another.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from orjson import loads

from sbic.kafka.connect import client_options
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.benchmarks.latency import tail


async def hop(settings: Settings, consumer: AIOKafkaConsumer, target: str) -> None:
    """Pass records on; each says where its label came from."""
    async with AIOKafkaProducer(
        **client_options(settings), acks="all", enable_idempotence=True
    ) as producer:
        while True:
            for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                for record in records:
                    loads(record.value)
                    headers = list(record.headers) or [
                        ("from", b"%d:%d" % (tp.partition, record.offset))
                    ]
                    await producer.send(
                        target,
                        record.value,
                        key=record.key,
                        partition=tp.partition,
                        headers=headers,
                    )


async def echo(settings: Settings) -> None:
    """From the labels to one topic and on to another; says when it is ready."""
    topics = Topics(settings)
    between, end = topics.workers.name, topics.dead_letters.name
    async with tail(settings, topics.labels.name) as labels, tail(settings, between) as passed_on:
        print("ready", flush=True)
        await asyncio.gather(hop(settings, labels, between), hop(settings, passed_on, end))


if __name__ == "__main__":
    asyncio.run(echo(Settings.from_env()))
