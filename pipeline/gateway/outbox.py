"""Puts records onto Kafka and waits for the acknowledgement; goes on when Kafka is back."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from pipeline.kafka.connection import connected
from pipeline.kafka.errors import ClusterError
from pipeline.partitioner import partition_of
from pipeline.settings import Settings

BATCH_BYTES = 1 << 20
PATIENCE_SECONDS = 8.0
RETRY_SECONDS = 0.5
REMEMBERED_KEYS = 1 << 16


class Row(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class Place(NamedTuple):
    """Where Kafka has a record; after a repeated delivery it does not say at which offset."""

    partition: int
    offset: int | None


class NotAcknowledged(Exception):
    """Not all records were acknowledged; `places` has None for those that were not."""

    def __init__(self, why: str, places: Sequence[Place | None]) -> None:
        super().__init__(why)
        self.places = places


class OnItsWay(NamedTuple):
    """Rows of one partition, by their indices, that Kafka has not acknowledged yet."""

    partition: int
    indices: Sequence[int]
    acknowledgement: "asyncio.Future[Any]"


class Outbox:
    """An idempotent producer, which sends what it has until Kafka takes it.

    While something waits for longer than `patience`, nothing more is taken. After an error there is
    another producer.
    """

    def __init__(
        self, settings: Settings, partitions: int, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._settings = settings
        self._patience = patience
        self._producer: AIOKafkaProducer | None = None
        self._why_none = "connecting to Kafka"
        self._failed = asyncio.Event()
        self._stuck: list[asyncio.Future[Any]] = []
        home = lru_cache(REMEMBERED_KEYS)(lambda key: partition_of(key, partitions))
        self._home = home

    async def run(self) -> None:
        """Keep a producer for ever."""
        while True:
            try:
                async with connected(self._new_producer(), self._settings) as producer:
                    self._failed.clear()
                    self._stuck = []
                    self._producer = producer
                    await self._failed.wait()
            except ClusterError as error:
                self._why_none = str(error)
            finally:
                self._producer = None
            await asyncio.sleep(RETRY_SECONDS)

    def _new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap_servers,
            enable_idempotence=True,
            acks="all",
            max_batch_size=BATCH_BYTES,
            max_request_size=4 * BATCH_BYTES,
        )

    @property
    def why_not(self) -> str | None:
        """Why nothing is taken now; None if it is."""
        if self._producer is None:
            return self._why_none
        if all(future.done() for future in self._stuck):
            return None
        servers = ", ".join(self._settings.bootstrap_servers)
        return f"Kafka at {servers} does not acknowledge what was sent"

    async def send(self, topic: str, rows: Sequence[Row]) -> list[Place]:
        """Send rows in order, each to the partition of its key; where Kafka has them.

        Raises `NotAcknowledged`.
        """
        producer = self._producer
        if why_not := self.why_not:
            raise NotAcknowledged(why_not, [None] * len(rows))
        assert producer is not None
        sent: list[OnItsWay] = []
        error: str | None = None
        try:
            async with asyncio.timeout(self._patience):
                for partition, indices in self._by_partition(rows).items():
                    sent += await hand_over(producer, topic, partition, rows, indices)
                if sent:
                    await asyncio.wait([each.acknowledgement for each in sent])
        except TimeoutError:
            self._stuck = [each.acknowledgement for each in sent]
            error = self.why_not or f"Kafka took longer than {self._patience:g} seconds"
        except KafkaError as failure:
            error = str(failure)
        error = first_error(sent) or error
        places = places_of(sent, len(rows))
        if error is not None:
            if producer is self._producer and not self._stuck:
                self._why_none = f"Kafka refused what was sent: {error}"
                self._failed.set()
            raise NotAcknowledged(error, places)
        return [place for place in places if place is not None]

    def _by_partition(self, rows: Iterable[Row]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            found.setdefault(self._home(row.key), []).append(index)
        return found


async def hand_over(
    producer: AIOKafkaProducer,
    topic: str,
    partition: int,
    rows: Sequence[Row],
    indices: Sequence[int],
) -> list[OnItsWay]:
    """Give rows of a partition to a producer: several as a batch, which is quicker than singly."""
    if len(indices) == 1:
        key, value = rows[indices[0]]
        acknowledgement = await producer.send(topic, value, key=key, partition=partition)
        acknowledgement.add_done_callback(heard)
        return [OnItsWay(partition, indices, acknowledgement)]
    sent = []
    start = 0
    while start < len(indices):
        batch = producer.create_batch()
        end = start
        while end < len(indices):
            key, value = rows[indices[end]]
            if batch.append(key=key, value=value, timestamp=None) is None:
                break  # it is full
            end += 1
        batch.close()
        acknowledgement = await producer.send_batch(batch, topic, partition=partition)
        acknowledgement.add_done_callback(heard)
        sent.append(OnItsWay(partition, indices[start:end], acknowledgement))
        start = end
    return sent


def heard(acknowledgement: "asyncio.Future[Any]") -> None:
    """Whoever waited has been answered by then: a late error is no news."""
    if not acknowledgement.cancelled():
        acknowledgement.exception()


def first_error(sent: Iterable[OnItsWay]) -> str | None:
    """What Kafka said of the first that it refused."""
    for each in sent:
        future = each.acknowledgement
        if future.done() and (future.cancelled() or future.exception()):
            return "the producer was closed" if future.cancelled() else str(future.exception())
    return None


def places_of(sent: Iterable[OnItsWay], rows: int) -> list[Place | None]:
    """Where Kafka has each row, as far as it has acknowledged them."""
    places: list[Place | None] = [None] * rows
    for partition, indices, future in sent:
        if not future.done() or future.cancelled() or future.exception():
            continue
        first = future.result().offset
        for step, index in enumerate(indices):
            places[index] = Place(partition, first + step if first >= 0 else None)
    return places
