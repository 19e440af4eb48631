"""Publishes whole batches and waits until Kafka has all of them.

Faust 0.15.3's producer gives up flushing after 100 ms without progress and only logs a failed
send, so the commit that follows can lose data; and it sends records one by one.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from faust.transport.drivers.aiokafka import Producer

MAX_BATCH_BYTES = 1 << 20
Header = tuple[str, bytes]
NO_HEADERS: list[Header] = []


Row = tuple[bytes | None, bytes | None, int | None, list[Header]]
"""Key, value, timestamp (`None`: the time of publication) and headers of a record."""


class Outbox(dict[tuple[str, int], list[Row]]):
    """Records to publish together, by topic and partition, each partition's in order."""

    def add(self, topic: str, partition: int, *rows: Row) -> None:
        """Add records to a partition."""
        self.setdefault((topic, partition), []).extend(rows)


class BatchProducer(Producer):
    """Faust's producer on aiokafka, idempotent, with `publish` for an outbox."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {
            "acks": "all",
            "enable_idempotence": True,
            "max_batch_size": MAX_BATCH_BYTES,
            "max_request_size": 16 * MAX_BATCH_BYTES,
        }

    async def publish(self, outbox: Outbox) -> dict[tuple[str, int], int]:
        """Publish all, wait for all acknowledgements; the offset of each partition's last record.

        Raises what Kafka raises: then nothing of the batch may be committed.
        """
        sent = {place: await self._send(*place, rows) for place, rows in outbox.items()}
        offsets = {}
        for place, parts in sent.items():
            for count, acknowledgement in parts:
                metadata = await acknowledgement
                offsets[place] = metadata.offset + count - 1
        return offsets

    async def _send(
        self, topic: str, partition: int, rows: list[Row]
    ) -> list[tuple[int, "asyncio.Future[Any]"]]:
        kafka = self._ensure_producer()
        parts = []
        builder = kafka.create_batch()
        for key, value, timestamp, headers in rows:
            if builder.append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                parts.append(await self._send_batch(builder, topic, partition))
                builder = kafka.create_batch()
                builder.append(key=key, value=value, timestamp=timestamp, headers=headers)
        parts.append(await self._send_batch(builder, topic, partition))
        return parts

    async def _send_batch(
        self, builder: Any, topic: str, partition: int
    ) -> tuple[int, "asyncio.Future[Any]"]:
        builder.close()
        future = await self._ensure_producer().send_batch(builder, topic, partition=partition)
        return builder.record_count(), future
