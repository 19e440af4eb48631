"""Publishes whole batches and waits until Kafka has all of them.

Faust 0.15.3's producer gives up flushing after 100 ms without progress and only logs a failed
send, so the commit that follows can lose data; and it sends records one by one. An aiokafka
producer has one request under way for each broker, so agents that share one wait for each other.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from mode import Service

from pipeline.batched.fence import Fence, FencedProducer, PutOut

MAX_BATCH_BYTES = 1 << 20
REQUEST_TIMEOUT_MS = 120_000  # as long as a broker may be away

Header = tuple[str, bytes | None]
NO_HEADERS: list[Header] = []
Row = tuple[bytes | None, bytes | None, int | None, list[Header]]
"""Key, value, timestamp (`None`: the time of publication) and headers of a record."""
Offsets = dict[tuple[str, int], int]
"""The offset of the last record published, by topic and partition."""


class Sent(NamedTuple):
    """So many records for a partition, given to aiokafka."""

    place: tuple[str, int]
    records: int
    acknowledgement: "asyncio.Future[Any]"


class Outbox(dict[tuple[str, int], list[Row]]):
    """Records to publish together, by topic and partition, each partition's in order."""

    def add(self, topic: str, partition: int, *rows: Row) -> None:
        """Add records to a partition."""
        self.setdefault((topic, partition), []).extend(rows)

    def add_all(self, other: "Outbox") -> None:
        """Add what another one has."""
        for (topic, partition), rows in other.items():
            self.add(topic, partition, *rows)


class BatchProducer(Service):
    """An idempotent producer, for one agent; with a fence it publishes only behind that.

    `connection` has the options of every client.
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
        self.in_flight = 0  # outboxes of which not all is acknowledged
        self.retries = 0  # batches that had to be sent again
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
        """Count what aiokafka 0.14 sends again, of which it says nothing but in its log."""
        reenqueue = accumulator.reenqueue

        def count(batch: Any) -> None:
            self.retries += 1
            reenqueue(batch)

        accumulator.reenqueue = count

    async def on_stop(self) -> None:
        """Leave."""
        await self.kafka.stop()

    async def publish(self, outbox: Outbox) -> Offsets:
        """Publish all and wait for all acknowledgements.

        Raises what Kafka raises: then nothing of the batch may be committed. `PutOut` is raised
        when nothing is under way any more, and the next batch can be published.
        """
        sent: list[Sent] = []
        self.in_flight += 1
        try:
            if self.fenced is not None:
                self.fenced.begin()
            for place, rows in outbox.items():
                await self._send(*place, rows, sent)
            return {
                part.place: (await part.acknowledgement).offset + part.records - 1 for part in sent
            }
        except PutOut:
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
                    raise ValueError(f"a record of {size:,} bytes for {topic} fits into no batch")
        sent.append(await self._send_batch(builder, topic, partition))

    async def _send_batch(self, builder: Any, topic: str, partition: int) -> Sent:
        builder.close()
        acknowledgement = await self.kafka.send_batch(builder, topic, partition=partition)
        return Sent((topic, partition), builder.record_count(), acknowledgement)
