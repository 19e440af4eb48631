"""Publishes whole batches and waits until Kafka has all of them.

Faust 0.15.3's producer gives up flushing after 100 ms without progress and only logs a failed
send, so the commit that follows can lose data; and it sends records one by one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from faust.transport.drivers.aiokafka import Producer

MAX_BATCH_BYTES = 1 << 20
Header = tuple[str, bytes]
NO_HEADERS: list[Header] = []


class Outbox:
    """Records to publish together, by topic and partition, each partition's in order."""

    def __init__(self) -> None:
        self.records: dict[
            tuple[str, int], list[tuple[bytes | None, bytes | None, int | None, Sequence[Header]]]
        ] = {}

    def add(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None = None,
        headers: Sequence[Header] = NO_HEADERS,
    ) -> None:
        """Add a record; without a timestamp it gets the time of its publication."""
        self.records.setdefault((topic, partition), []).append(
            (key, value, timestamp, list(headers))
        )

    def __bool__(self) -> bool:
        return bool(self.records)


class BatchProducer(Producer):
    """Faust's producer on aiokafka, idempotent, with `publish` for an outbox."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {
            "acks": "all",
            "enable_idempotence": True,
            "max_batch_size": MAX_BATCH_BYTES,
            "max_request_size": 4 * MAX_BATCH_BYTES,
        }

    async def publish(self, outbox: Outbox) -> dict[tuple[str, int], int]:
        """Publish all, wait for all acknowledgements; the offset of each partition's last record.

        Raises what Kafka raises: then nothing of the batch may be committed.
        """
        sent = {place: await self._send(*place, rows) for place, rows in outbox.records.items()}
        offsets = {}
        for place, parts in sent.items():
            for count, acknowledgement in parts:
                metadata = await acknowledgement
                offsets[place] = metadata.offset + count - 1
        return offsets

    async def _send(
        self, topic: str, partition: int, rows: Sequence[tuple[Any, Any, Any, Any]]
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
