"""Publishes records and waits for acknowledgements; requests tasks for any number of workers."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from sbic.kafka.connect import connected, new_producer
from sbic.kafka.errors import ClusterError
from sbic.kafka.reader import Reader
from sbic.kafka.requests import At, OpenRequests, Record
from sbic.project.settings import Settings
from sbic.wire.partitions import partition_of

# Publishes to one partition: one batch in flight, and the next one filled meanwhile.
#
# aiokafka's `send` creates a future for every record, and its `send_batch` queues one batch of a
# partition at a time: with arrays from many clients, either would cost more than everything else.


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


# Publishes records and waits for the acknowledgements; reconnects when Kafka is back.


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
        return new_producer(
            self._settings, max_batch_size=BATCH_BYTES, max_request_size=4 * BATCH_BYTES
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


# Requests tasks for any number of workers at once.


ASSIGNMENT_SECONDS = 10.0


class Desk:
    """Publishes requests, and waits for their assignments."""

    def __init__(
        self, topic: str, outbox: Outbox, assignments: Reader, patience: float = ASSIGNMENT_SECONDS
    ) -> None:
        self._topic = topic
        self._outbox = outbox
        self._assignments = assignments
        self._patience = patience
        self._requests = OpenRequests()

    async def run(self) -> None:
        """Read the assignments until cancelled."""
        async for records in self._assignments.follow():
            for record in records:
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
