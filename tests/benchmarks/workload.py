"""The labels that every contestant reads, and the clock that stops when they are dealt with."""

import asyncio
import random
from dataclasses import dataclass
from time import sleep

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from orjson import loads

from sbic.kafka.connect import client_options
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.instances import RunningInstance


@dataclass(frozen=True)
class RandomCrowd:
    """A crowd whose workers answer random tasks, each task once."""

    labels: int = 200_000
    tasks: int = 10_000
    workers: int = 2_000
    seed: int = 1

    def records(self) -> list[tuple[bytes, bytes]]:
        """Key and value of each label, in order."""
        rng = random.Random(self.seed)
        accuracy = [rng.betavariate(4, 3) for _ in range(self.workers)]
        answered: set[tuple[int, int]] = set()
        records: list[tuple[bytes, bytes]] = []
        while len(records) < self.labels:
            worker, task = rng.randrange(self.workers), rng.randrange(self.tasks)
            if (worker, task) in answered:
                continue
            answered.add((worker, task))
            label = 1 if rng.random() < accuracy[worker] else -1
            name = f"w{worker}"
            records.append((name.encode(), encode_label(f"t{task}", name, label)))
        return records


async def produce(settings: Settings, records: list[tuple[bytes, bytes]]) -> None:
    """Put the labels on the topic, all at once."""
    topic = Topics(settings).labels.name
    homes = {key: partition_of(key, settings.partitions) for key, _ in records}
    async with AIOKafkaProducer(**client_options(settings), max_batch_size=1 << 18) as producer:
        builders = {partition: producer.create_batch() for partition in range(settings.partitions)}
        for key, value in records:
            partition = homes[key]
            if builders[partition].append(key=key, value=value, timestamp=None) is None:
                await producer.send_batch(builders[partition], topic, partition=partition)
                builders[partition] = producer.create_batch()
                builders[partition].append(key=key, value=value, timestamp=None)
        for partition, builder in builders.items():
            await producer.send_batch(builder, topic, partition=partition)


def seconds_until_counted(settings: Settings, running: RunningInstance, labels: int) -> float:
    """Seconds from the first posterior to the one that completes the count of labels.

    The posteriors are read afterwards: on two cores, a reader would slow down what is measured.
    """
    while running.get("/metrics")[0] == 0 or running.metrics()["sbic_votes_total"] < labels:
        sleep(0.5)
    return asyncio.run(_seconds_by_timestamps(settings, labels))


async def _seconds_by_timestamps(settings: Settings, labels: int) -> float:
    topic = Topics(settings).posteriors.name
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    counts: dict[str, int] = {}
    timestamps: list[int] = []
    async with consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(settings.partitions)])
        while sum(counts.values()) < labels:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    count = loads(record.value)["labels"]
                    if count != counts.get(
                        record.key
                    ):  # else it is weighed anew, and no label more
                        counts[record.key] = count
                        timestamps.append(record.timestamp)
    return (max(timestamps) - min(timestamps)) / 1000
