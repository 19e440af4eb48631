"""Publishes to one partition: one batch in flight, and the next one filled meanwhile.

aiokafka's `send` creates a future for every record, and its `send_batch` queues one batch of a
partition at a time: with arrays from many clients, either would cost more than everything else.
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
    """The partition and offset of a record; Kafka does not report the offset of a repeated one."""

    partition: int
    offset: int | None


class Delivery:
    """Rows sent together: the place of each; `done` when all are acknowledged or one has failed."""

    def __init__(self, rows: int) -> None:
        self.places: list[Place | None] = [None] * rows
        self.done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_given_up = False
        self._missing = rows

    def arrived(self, index: int, place: Place) -> None:
        """A row is acknowledged."""
        self.places[index] = place
        self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result(None)

    def failed(self, why: str) -> None:
        """A row cannot be sent."""
        if not self.done.done():
            self.done.set_result(why)

    def give_up(self) -> None:
        """Nobody waits any more: rows that are not in flight are dropped."""
        self.is_given_up = True


Batch = Any  # aiokafka's BatchBuilder has no types


class Waiting(NamedTuple):
    """A row that is not sent yet, and its number in its delivery."""

    row: Row
    delivery: Delivery
    number: int


class Producer(NamedTuple):
    """What a lane needs of a producer: to create batches, and to send one to its partition."""

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
        """How long the batch in flight has not been acknowledged."""
        return 0.0 if self._since is None else monotonic() - self._since

    def put(self, row: Row, delivery: Delivery, index: int) -> None:
        """Send a row once those before it are acknowledged."""
        self._waiting.append(Waiting(row, delivery, index))
        if self._sending is None:
            self._since = monotonic()
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Stop sending; all rows that wait fail."""
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
                for step, each in enumerate(taken):
                    offset = first + step if first >= 0 else None
                    each.delivery.arrived(each.number, Place(self._partition, offset))
        except (Exception, asyncio.CancelledError) as error:
            why = str(error) or "the producer was closed"
            for each in (*taken, *self._waiting):
                each.delivery.failed(why)
            self._waiting.clear()
            self._on_error(why)
        finally:
            self._since = self._sending = None

    def _fill(self, batch: Batch) -> list[Waiting]:
        """Fill a batch, without the rows of deliveries that were given up."""
        taken = []
        while self._waiting:
            first = self._waiting[0]
            if not first.delivery.is_given_up:
                key, value = first.row
                if batch.append(key=key, value=value, timestamp=None) is None:
                    break  # it is full
                taken.append(first)
            self._waiting.popleft()
        batch.close()
        return taken
