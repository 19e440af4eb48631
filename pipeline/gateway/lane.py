"""One partition's way to Kafka: a batch under way, and all that comes meanwhile in the next one.

aiokafka's `send` makes a future of every record, and its `send_batch` lets one batch of a partition
wait at a time: with arrays from many clients either would cost more than everything else.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple


class Row(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class Place(NamedTuple):
    """Where Kafka has a record; after a repeated delivery it does not say at which offset."""

    partition: int
    offset: int | None


class Delivery:
    """Rows that were given together: where each is, and `done` when all are or one has failed."""

    def __init__(self, rows: int) -> None:
        self.places: list[Place | None] = [None] * rows
        self.done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_given_up = False
        self._missing = rows

    def arrived(self, index: int, place: Place) -> None:
        """Kafka has a row."""
        self.places[index] = place
        self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result(None)

    def failed(self, why: str) -> None:
        """A row cannot be sent."""
        if not self.done.done():
            self.done.set_result(why)


Batch = Any  # aiokafka's BatchBuilder has no types
Waiting = tuple[Row, Delivery, int]


class Producer(NamedTuple):
    """What a lane needs of a producer: to make batches, and to send one to its partition."""

    create_batch: Callable[[], Batch]
    send: Callable[[Batch], Awaitable["asyncio.Future[Any]"]]


class Lane:
    """The rows of one partition, in the order in which they were put."""

    def __init__(self, partition: int, producer: Producer, on_error: Callable[[str], None]) -> None:
        self._partition = partition
        self._producer = producer
        self._on_error = on_error
        self._waiting: deque[Waiting] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._since: float | None = None

    @property
    def stuck_seconds(self) -> float:
        """For how long Kafka has not acknowledged the batch under way."""
        return 0.0 if self._since is None else monotonic() - self._since

    def put(self, row: Row, delivery: Delivery, index: int) -> None:
        """Send a row as soon as what is before it has arrived."""
        self._waiting.append((row, delivery, index))
        if self._sending is None:
            self._since = monotonic()
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send nothing more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        taken: list[Waiting] = []
        try:
            while self._waiting:
                batch = self._producer.create_batch()
                taken = self._fill(batch)
                if not taken:
                    continue
                self._since = self._since or monotonic()
                first = (await (await self._producer.send(batch))).offset
                self._since = None
                for step, (_, delivery, index) in enumerate(taken):
                    offset = first + step if first >= 0 else None
                    delivery.arrived(index, Place(self._partition, offset))
        except (Exception, asyncio.CancelledError) as error:
            why = str(error) or "the producer was closed"
            for _, delivery, _ in (*taken, *self._waiting):
                delivery.failed(why)
            self._waiting.clear()
            self._on_error(why)
        finally:
            self._since = self._sending = None

    def _fill(self, batch: Batch) -> list[Waiting]:
        """Put what fits into a batch, but for rows that nobody waits for any more."""
        taken = []
        while self._waiting:
            row, delivery, _ = self._waiting[0]
            if not delivery.is_given_up:
                if batch.append(key=row.key, value=row.value, timestamp=None) is None:
                    break  # it is full
                taken.append(self._waiting[0])
            self._waiting.popleft()
        batch.close()
        return taken
