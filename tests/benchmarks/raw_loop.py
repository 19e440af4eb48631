"""The yardstick: consume, parse and produce each record with aiokafka, and nothing else."""

import asyncio
import sys
from time import perf_counter

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from orjson import dumps, loads

from sbic.kafka.connect import client_options
from sbic.project.settings import Settings
from sbic.project.topics import Topics


async def raw_loop(settings: Settings, labels: int) -> float:
    """Seconds to pass all labels on to another topic, each acknowledged."""
    topics = Topics(settings)
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(**client_options(settings), acks="all", enable_idempotence=True)
    async with consumer, producer:
        partitions = [TopicPartition(topics.labels.name, p) for p in range(settings.partitions)]
        consumer.assign(partitions)
        done = 0
        started = perf_counter()
        while done < labels:
            for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                sent = [
                    await producer.send(
                        topics.workers.name,
                        dumps(loads(record.value)),
                        key=record.key,
                        partition=tp.partition,
                    )
                    for record in records
                ]
                await asyncio.gather(*sent)
                done += len(records)
        return perf_counter() - started


if __name__ == "__main__":
    print(asyncio.run(raw_loop(Settings.from_env(), int(sys.argv[1]))))
