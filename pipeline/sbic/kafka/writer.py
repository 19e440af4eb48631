"""Publishes labels keyed by worker, and reports the partition and offset of each."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from aiokafka import AIOKafkaProducer

from sbic.kafka.admin import partitions_of
from sbic.kafka.connect import connected, new_producer
from sbic.kafka.errors import Refused
from sbic.kafka.rights import Operation
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of

PORTION = 4000
TICK_SECONDS = 0.01

T = TypeVar("T")


async def paced(things: Sequence[T], rate: float | None) -> AsyncIterator[Sequence[T]]:
    """Yield portions of `things` in order, at `rate` things a second, or without waiting."""
    start = monotonic()
    done = 0
    while done < len(things):
        due = len(things)
        if rate is not None:
            due = min(due, 1 + int((monotonic() - start) * rate))
            if due <= done:
                await asyncio.sleep(max(TICK_SECONDS, start + done / rate - monotonic()))
                continue
        portion = things[done : min(due, done + PORTION)]
        done += len(portion)
        yield portion


# Publishes labels keyed by worker, and reports the partition and offset of each.


MAX_BATCH_BYTES = 1 << 20


class Label(NamedTuple):
    """A label to send, with its value as it is on the wire."""

    task: str
    worker: str
    label: int | str


class Sent(NamedTuple):
    """Acknowledged labels of one partition, at consecutive offsets from `first` on.

    `at` is when they were passed to the producer, by the monotonic clock.
    """

    at: float
    partition: int
    first: int
    labels: Sequence[Label]


class InFlight(NamedTuple):
    """A batch of labels that Kafka has not acknowledged yet."""

    at: float
    partition: int
    labels: list[Label]
    acknowledgement: "asyncio.Future[Any]"

    async def sent(self) -> Sent:
        """Wait for the acknowledgement."""
        offset = (await self.acknowledgement).offset
        if offset < 0:
            raise Refused("Kafka received labels twice, and does not report their offsets")
        return Sent(self.at, self.partition, offset, self.labels)


class LabelSender:
    """An idempotent producer of labels; each worker's labels keep their order."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, partitions: int) -> None:
        self.producer = producer
        self.topic = topic
        self.partitions = partitions
        self._workers: dict[str, tuple[int, bytes]] = {}

    async def send_all(
        self, labels: Sequence[Label], rate: float | None = None
    ) -> AsyncIterator[Sent]:
        """Send all in order, at most `rate` labels a second, and yield what is acknowledged."""
        previous: list[InFlight] = []
        async for portion in paced(labels, rate):
            batches = await self.send(portion)
            if rate is None:  # encode the next portion while this one is in flight
                batches, previous = previous, batches
            for batch in batches:
                yield await batch.sent()
        for batch in previous:
            yield await batch.sent()

    async def send(self, labels: Iterable[Label]) -> list[InFlight]:
        """Send labels, a batch for each partition; returns while they are in flight."""
        at = monotonic()
        by_partition: dict[int, list[tuple[bytes, Label]]] = {}
        for label in labels:
            partition, key = self._workers.get(label.worker) or self._place(label.worker)
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
    ) -> list[InFlight]:
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
    ) -> InFlight:
        batch.close()
        future = await self.producer.send_batch(batch, self.topic, partition=partition)
        future.add_done_callback(_retrieve)
        return InFlight(at, partition, labels, future)


def _retrieve(acknowledgement: "asyncio.Future[Any]") -> None:
    """Retrieve the exception: of batches that fail together, only the first one is reported."""
    if not acknowledgement.cancelled():
        acknowledgement.exception()


@asynccontextmanager
async def sending(settings: Settings) -> AsyncIterator[LabelSender]:
    """A sender connected to the labels topic of the project."""
    topic = Topics(settings).labels.name
    partitions = await partitions_of(settings, topic, Operation.WRITE)
    producer = new_producer(
        settings, max_batch_size=MAX_BATCH_BYTES, max_request_size=4 * MAX_BATCH_BYTES
    )
    async with connected(producer, settings):
        yield LabelSender(producer, topic, partitions)
