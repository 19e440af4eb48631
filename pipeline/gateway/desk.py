"""Requests tasks for any number of workers at once."""

import asyncio

from pipeline.gateway.lane import Row
from pipeline.gateway.outbox import NotAcknowledged, Outbox
from pipeline.kafka.open_requests import At, OpenRequests, Record
from pipeline.kafka.reading import Reader

PATIENCE_SECONDS = 10.0


class Desk:
    """Publishes requests, and waits for their assignments."""

    def __init__(
        self, topic: str, outbox: Outbox, assignments: Reader, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._topic = topic
        self._outbox = outbox
        self._assignments = assignments
        self._patience = patience
        self._requests = OpenRequests()

    async def run(self) -> None:
        """Read the assignments until cancelled."""
        while True:
            for record in await self._assignments.next(seconds=1):
                self._requests.learn(record.value)

    async def ask(self, worker: str, count: int, value: bytes) -> list[Record]:
        """Request `count` tasks; returns the assignments that arrived in time, any refusal last.

        Raises `NotAcknowledged`.
        """
        asked = self._requests.begin(worker, count)
        try:
            (place,) = await self._outbox.send(self._topic, [Row(worker.encode(), value)])
            if place.offset is None:
                raise NotAcknowledged("Kafka received the request twice", [place])
        except BaseException:
            self._requests.not_sent(asked)
            raise
        at = At(place.partition, place.offset)
        self._requests.placed(asked, at)
        try:
            async with asyncio.timeout(self._patience):
                return await asked.answered
        except TimeoutError:
            return asked.in_order()
        finally:
            self._requests.close(at)
