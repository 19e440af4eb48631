"""Publishes whole batches and waits until Kafka has acknowledged all of them.

Faust 0.15.3's producer gives up flushing after 100 ms without progress and only logs a failed
send, so the commit that follows can lose data; and it sends records one by one. An aiokafka
producer has one request in flight per broker, so agents that share one wait for each other.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from mode import Service

from pipeline.batched.fence import Fence, FencedProducer, RemovedFromGroup

MAX_BATCH_BYTES = 1 << 20
REQUEST_TIMEOUT_MS = 120_000  # how long a broker may be unavailable

Header = tuple[str, bytes | None]
NO_HEADERS: list[Header] = []
Offsets = dict[tuple[str, int], int]
"""The offset of the last record published, by topic and partition."""


class Row(NamedTuple):
    """A record to publish; without a timestamp it gets the time of publication."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: list[Header] = NO_HEADERS


class Sent(NamedTuple):
    """A number of records for a partition, given to aiokafka."""

    topic: str
    partition: int
    records: int
    acknowledgement: "asyncio.Future[Any]"


class Outbox(dict[tuple[str, int], list[Row]]):
    """Records to publish together, by topic and partition, each partition's in order."""

    def add(self, topic: str, partition: int, *rows: Row) -> None:
        """Add records to a partition."""
        self.setdefault((topic, partition), []).extend(rows)

    def add_all(self, other: "Outbox") -> None:
        """Add the records of another outbox."""
        for (topic, partition), rows in other.items():
            self.add(topic, partition, *rows)


class BatchProducer(Service):
    """An idempotent producer, for one agent; a fence stops it once the instance may be replaced.

    `connection` has the options that all clients share.
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        client_id: str,
        fence: Fence | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fence = fence
        self.fenced: FencedProducer | None = None
        self.in_flight = 0  # outboxes that are not yet fully acknowledged
        self.retries = 0  # batches that were sent again
        self.options = {
            **connection,
            "client_id": client_id,
            "acks": "all",
            "enable_idempotence": True,
            "max_batch_size": MAX_BATCH_BYTES,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
        }

    async def on_start(self) -> None:
        """Connect."""
        self.kafka = AIOKafkaProducer(**self.options)
        if self.fence is not None:
            self.fenced = FencedProducer(self.kafka, self.fence)
        self._count_retries(self.kafka._message_accumulator)
        await self.kafka.start()

    def _count_retries(self, accumulator: Any) -> None:
        """Count the batches that aiokafka 0.14 sends again; it only logs them."""
        reenqueue = accumulator.reenqueue

        def count(batch: Any) -> None:
            self.retries += 1
            reenqueue(batch)

        accumulator.reenqueue = count

    async def on_stop(self) -> None:
        """Stop the client."""
        await self.kafka.stop()

    async def publish(self, outbox: Outbox) -> Offsets:
        """Publish all records and wait for all acknowledgements.

        Raises Kafka's errors: then the batch must not be committed. `RemovedFromGroup` is raised
        once nothing is in flight, so that the next batch can be published.
        """
        sent: list[Sent] = []
        self.in_flight += 1
        try:
            if self.fenced is not None:
                self.fenced.begin()
            for (topic, partition), rows in outbox.items():
                await self._send(topic, partition, rows, sent)
            return {
                (part.topic, part.partition): (await part.acknowledgement).offset + part.records - 1
                for part in sent
            }
        except RemovedFromGroup:
            await asyncio.gather(*(part.acknowledgement for part in sent), return_exceptions=True)
            if self.fenced is not None:
                self.fenced.forget()
            raise
        finally:
            self.in_flight -= 1

    async def _send(self, topic: str, partition: int, rows: list[Row], sent: list[Sent]) -> None:
        builder = self.kafka.create_batch()
        for key, value, timestamp, headers in rows:
            if builder.append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                sent.append(await self._send_batch(builder, topic, partition))
                builder = self.kafka.create_batch()
                again = builder.append(key=key, value=value, timestamp=timestamp, headers=headers)
                if again is None:
                    size = len(key or b"") + len(value or b"")
                    raise ValueError(f"a record of {size:,} bytes is too large for {topic}")
        sent.append(await self._send_batch(builder, topic, partition))

    async def _send_batch(self, builder: Any, topic: str, partition: int) -> Sent:
        builder.close()
        acknowledgement = await self.kafka.send_batch(builder, topic, partition=partition)
        return Sent(topic, partition, builder.record_count(), acknowledgement)
