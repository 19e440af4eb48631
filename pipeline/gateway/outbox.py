"""Publishes records and waits for the acknowledgements; reconnects when Kafka is back."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from pipeline.gateway.lane import Delivery, Lane, Place, Producer, Row
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import ClusterError
from pipeline.kafka.options import client_options
from pipeline.partitioner import partition_of
from pipeline.settings import Settings

BATCH_BYTES = 1_000_000  # a larger record gets its own batch
PATIENCE_SECONDS = 8.0
RETRY_SECONDS = 0.5


class NotAcknowledged(Exception):
    """Not all records were acknowledged; `places` has None for those that were not."""

    def __init__(self, why: str, places: Sequence[Place | None]) -> None:
        super().__init__(why)
        self.places = places


class Outbox:
    """An idempotent producer, which retries a batch until it is acknowledged.

    While a batch is unacknowledged for longer than `patience`, new records are refused. After an
    error the producer is replaced.
    """

    def __init__(
        self, settings: Settings, partitions: int, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._patience = patience
        self._producer: AIOKafkaProducer | None = None
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._why_none = "connecting to Kafka"
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Keep a producer connected until cancelled."""
        while True:
            try:
                async with connected(self._new_producer(), self._settings) as self._producer:
                    self._failed.clear()
                    await self._failed.wait()
            except ClusterError as error:
                self._why_none = str(error)
            finally:
                self._producer = None
                lanes, self._lanes = self._lanes, {}
                await asyncio.gather(*(lane.close() for lane in lanes.values()))
            await asyncio.sleep(RETRY_SECONDS)

    def _new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **client_options(self._settings),
            enable_idempotence=True,
            acks="all",
            max_batch_size=BATCH_BYTES,
            max_request_size=4 * BATCH_BYTES,
        )

    @property
    def why_not(self) -> str | None:
        """Why records are refused now; None if they are accepted."""
        if self._producer is None:
            return self._why_none
        if all(lane.stuck_seconds < self._patience for lane in self._lanes.values()):
            return None
        servers = ", ".join(self._settings.bootstrap_servers)
        return f"Kafka at {servers} does not acknowledge what was sent"

    async def send(self, topic: str, rows: Sequence[Row]) -> list[Place]:
        """Send rows in order, each to the partition of its key, and return their places.

        Raises `NotAcknowledged`.
        """
        if why_not := self.why_not:
            raise NotAcknowledged(why_not, [None] * len(rows))
        if not rows:
            return []
        delivery = Delivery(len(rows))
        for index, row in enumerate(rows):
            self._lane(topic, partition_of(row.key, self._partitions)).put(row, delivery, index)
        try:
            async with asyncio.timeout(self._patience):
                error = await delivery.done
        except TimeoutError:
            error = f"Kafka took longer than {self._patience:g} seconds"
        if error is not None:
            delivery.give_up()
            raise NotAcknowledged(error, delivery.places)
        return [place for place in delivery.places if place is not None]

    def _lane(self, topic: str, partition: int) -> Lane:
        try:
            return self._lanes[topic, partition]
        except KeyError:
            producer = self._producer
            assert producer is not None
            client = Producer(
                producer.create_batch,
                lambda batch: producer.send_batch(batch, topic, partition=partition),
            )
            lane = self._lanes[topic, partition] = Lane(partition, client, self._fail)
            return lane

    def _fail(self, why: str) -> None:
        self._why_none = f"Kafka refused what was sent: {why}"
        self._failed.set()
