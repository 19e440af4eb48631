"""Puts labels onto their topic, keyed by worker, and knows where each of them went."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from pipeline.kafka.access.rights import Operation
from pipeline.kafka.admin import partitions_of
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import Refused
from pipeline.kafka.options import client_options
from pipeline.kafka.pace import paced
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.settings import Settings
from pipeline.topics import Topics

MAX_BATCH_BYTES = 1 << 20

Label = tuple[str, str, int | str]
"""Task, worker and label, this one as it is on the wire."""


class Sent(NamedTuple):
    """Labels that Kafka has: of one partition, at consecutive offsets from `first` on.

    `at` is when they were handed over, by the monotonic clock.
    """

    at: float
    partition: int
    first: int
    labels: Sequence[Label]


class OnItsWay(NamedTuple):
    """A batch of labels that Kafka has not acknowledged yet."""

    at: float
    partition: int
    labels: list[Label]
    acknowledgement: "asyncio.Future[Any]"

    async def sent(self) -> Sent:
        """Wait until Kafka has it."""
        offset = (await self.acknowledgement).offset
        if offset < 0:
            raise Refused("Kafka took labels a second time, and does not say where they are")
        return Sent(self.at, self.partition, offset, self.labels)


class LabelSender:
    """An idempotent producer: Kafka has each label once, each worker's in the order sent."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, partitions: int) -> None:
        self.producer = producer
        self.topic = topic
        self.partitions = partitions
        self._workers: dict[str, tuple[int, bytes]] = {}

    async def send_all(
        self, labels: Sequence[Label], rate: float | None = None
    ) -> AsyncIterator[Sent]:
        """Send all in order, at most `rate` labels a second, and tell what Kafka has."""
        before: list[OnItsWay] = []
        async for portion in paced(labels, rate):
            on_their_way = await self.send(portion)
            if rate is None:  # while Kafka takes a portion, make the next
                on_their_way, before = before, on_their_way
            for batch in on_their_way:
                yield await batch.sent()
        for batch in before:
            yield await batch.sent()

    async def send(self, labels: Iterable[Label]) -> list[OnItsWay]:
        """Send labels, a batch for each partition; returns when they are on their way."""
        at = monotonic()
        by_partition: dict[int, list[tuple[bytes, Label]]] = {}
        for label in labels:
            partition, key = self._workers.get(label[1]) or self._place(label[1])
            by_partition.setdefault(partition, []).append((key, label))
        sent = []
        for partition, keyed in by_partition.items():
            sent += await self._send(at, partition, keyed)
        return sent

    def _place(self, worker: str) -> tuple[int, bytes]:
        key = worker.encode()
        place = self._workers[worker] = partition_of(key, self.partitions), key
        return place

    async def _send(
        self, at: float, partition: int, keyed: list[tuple[bytes, Label]]
    ) -> list[OnItsWay]:
        sent = []
        batch = self.producer.create_batch()
        labels: list[Label] = []
        for key, label in keyed:
            value = encode_label(*label)
            if batch.append(key=key, value=value, timestamp=None) is None:  # it is full
                sent.append(await self._send_batch(batch, at, partition, labels))
                batch, labels = self.producer.create_batch(), []
                batch.append(key=key, value=value, timestamp=None)
            labels.append(label)
        sent.append(await self._send_batch(batch, at, partition, labels))
        return sent

    async def _send_batch(
        self, batch: Any, at: float, partition: int, labels: list[Label]
    ) -> OnItsWay:
        batch.close()
        future = await self.producer.send_batch(batch, self.topic, partition=partition)
        future.add_done_callback(_heard)
        return OnItsWay(at, partition, labels, future)


def _heard(acknowledgement: "asyncio.Future[Any]") -> None:
    """Of several batches that fail together one is reported; the others are no news."""
    if not acknowledgement.cancelled():
        acknowledgement.exception()


@asynccontextmanager
async def sending(settings: Settings) -> AsyncIterator[LabelSender]:
    """A sender to the labels topic of this project."""
    topic = Topics(settings).labels.name
    partitions = await partitions_of(settings, topic, Operation.WRITE)
    producer = AIOKafkaProducer(
        **client_options(settings),
        enable_idempotence=True,
        acks="all",
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=4 * MAX_BATCH_BYTES,
    )
    async with connected(producer, settings):
        yield LabelSender(producer, topic, partitions)
