"""Publishes records: whole batches, one in flight per partition, with the offset of each record."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerClosed

from sbic.classes import Classes
from sbic.kafka.admin import partitions_of
from sbic.kafka.connect import connected, new_producer
from sbic.kafka.errors import ClusterError, Refused
from sbic.kafka.rights import Operation
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import Row, partition_of

# aiokafka's `send` creates a future for every record, and its `send_batch` queues one batch of a
# partition at a time: with arrays from many clients, either would cost more than everything else.
# So rows wait here: while a batch is in flight, the next one of its partition fills.


class At(NamedTuple):
    """The partition and offset of a record; Kafka does not report the offset of a repeated one."""

    partition: int
    offset: int | None


class Acknowledged(NamedTuple):
    """Rows at consecutive offsets of a partition, by their numbers in a delivery."""

    partition: int
    first: int | None
    numbers: Sequence[int]


class Delivery:
    """Rows sent together; `done` when all are acknowledged, or with the error of the first failure.

    It may be awaited or not: an error that nobody awaits is not reported.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.acknowledged: list[Acknowledged] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_given_up = False
        self._missing = rows
        if not rows:
            self.done.set_result(None)

    @property
    def places(self) -> list[At | None]:
        """The partition and offset of each row; None while it is not acknowledged."""
        places: list[At | None] = [None] * self.rows
        for partition, first, numbers in self.acknowledged:
            for step, number in enumerate(numbers):
                places[number] = At(partition, None if first is None else first + step)
        return places

    def arrived(self, part: Acknowledged) -> None:
        """Note that Kafka has acknowledged some of the rows."""
        self.acknowledged.append(part)
        self._missing -= len(part.numbers)
        if not self._missing and not self.done.done():
            self.done.set_result(None)

    def failed(self, error: Exception) -> None:
        """Note that a row cannot be sent."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # retrieved: see above

    def give_up(self) -> None:
        """Drop the rows that are not in flight: nobody waits for them any more."""
        self.is_given_up = True


class _Part(NamedTuple):
    """Rows of a delivery for one partition, and their numbers in it."""

    rows: Sequence[Row]
    numbers: Sequence[int]
    delivery: Delivery


class _Queue:
    """The rows for one partition, in the order in which they were put."""

    def __init__(self, writer: "Writer", topic: str, partition: int) -> None:
        self._writer = writer
        self._topic = topic
        self._partition = partition
        self._parts: deque[_Part] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._since: float | None = None

    @property
    def stuck_seconds(self) -> float:
        """How long the batch in flight has not been acknowledged."""
        return 0.0 if self._since is None else monotonic() - self._since

    def put(self, part: _Part) -> None:
        """Send rows once those before them are acknowledged."""
        self._parts.append(part)
        if self._sending is None:
            self._since = monotonic()
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Stop sending; all rows that wait fail."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        kafka = self._writer.kafka
        taken: list[_Part] = []
        try:
            while self._parts:
                batch = kafka.create_batch()
                taken = self._fill(batch)
                if not taken:
                    continue
                self._since = self._since or monotonic()
                sent = await kafka.send_batch(batch, self._topic, partition=self._partition)
                offset = (await sent).offset
                self._since = None
                for part in taken:
                    first = offset if offset >= 0 else None
                    part.delivery.arrived(Acknowledged(self._partition, first, part.numbers))
                    offset += len(part.rows) if offset >= 0 else 0
                taken = []
        except (Exception, asyncio.CancelledError) as error:
            why = error if isinstance(error, Exception) else ProducerClosed()
            for part in (*taken, *self._parts):
                part.delivery.failed(why)
            self._parts.clear()
            self._writer.fail(why)
        finally:
            self._since = self._sending = None

    def _fill(self, batch: Any) -> list[_Part]:
        """Fill a batch, without the rows of deliveries that were given up."""
        taken = []
        while self._parts:
            part = self._parts.popleft()
            if part.delivery.is_given_up:
                continue
            size = 0
            for key, value, timestamp, headers in part.rows:
                # even a record that is larger than a batch fits into an empty one
                if batch.append(key=key, value=value, timestamp=timestamp, headers=headers) is None:
                    break
                size += 1
            if size:
                taken.append(_Part(part.rows[:size], part.numbers[:size], part.delivery))
            if size < len(part.rows):
                rest = _Part(part.rows[size:], part.numbers[size:], part.delivery)
                self._parts.appendleft(rest)
                break
        batch.close()
        return taken


class Writer:
    """Publishes rows with one producer; rows of a partition keep their order.

    After an error, rows of the same partition fail: `failure` has the first one, and `failed` is
    set. `partitions` is the number of partitions of topics whose rows have a key.
    """

    def __init__(self, kafka: AIOKafkaProducer, partitions: int) -> None:
        self.kafka = kafka
        self.partitions = partitions
        self.failed = asyncio.Event()
        self.failure: Exception | None = None
        self._queues: dict[tuple[str, int], _Queue] = {}

    def fail(self, error: Exception) -> None:
        """Note that rows could not be sent."""
        self.failure = self.failure or error
        self.failed.set()

    @property
    def stuck_seconds(self) -> float:
        """The longest time for which a batch in flight has not been acknowledged."""
        return max((queue.stuck_seconds for queue in self._queues.values()), default=0.0)

    def put(self, topic: str, rows: Sequence[Row], partition: int | None = None) -> Delivery:
        """Begin to send rows, each to the partition of its key or all to the one given."""
        delivery = Delivery(len(rows))
        if partition is not None:
            self._put(topic, partition, _Part(rows, range(len(rows)), delivery))
            return delivery
        by_partition: dict[int, _Part] = {}
        for number, row in enumerate(rows):
            home = partition_of(row.key or b"", self.partitions)
            if home not in by_partition:
                by_partition[home] = _Part([], [], delivery)
            by_partition[home].rows.append(row)  # type: ignore[attr-defined]
            by_partition[home].numbers.append(number)  # type: ignore[attr-defined]
        for home, part in by_partition.items():
            self._put(topic, home, part)
        return delivery

    def _put(self, topic: str, partition: int, part: _Part) -> None:
        if not part.rows:
            return
        if (topic, partition) not in self._queues:
            self._queues[topic, partition] = _Queue(self, topic, partition)
        self._queues[topic, partition].put(part)

    async def send(self, topic: str, rows: Sequence[Row], partition: int | None = None) -> list[At]:
        """Send rows and wait until all are acknowledged; raises Kafka's errors."""
        delivery = self.put(topic, rows, partition)
        try:
            await delivery.done
        finally:
            delivery.give_up()
        return [place for place in delivery.places if place is not None]

    async def close(self) -> None:
        """Stop sending; the producer stays open."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))


@asynccontextmanager
async def writing(settings: Settings, *topics: Topic, partitions: int = 1) -> AsyncIterator[Writer]:
    """Connect a writer to these topics; raise unless they exist and may be written."""
    for topic in topics:
        # of those that somebody has added, none is anybody's home
        has = await partitions_of(settings, topic.name, Operation.WRITE)
        partitions = min(has, topic.partitions)
    async with connected(new_producer(settings), settings) as producer:
        writer = Writer(producer, partitions)
        try:
            yield writer
        finally:
            await writer.close()


# A writer for as long as a process runs: it reconnects when Kafka is back.


WRITER_PATIENCE_SECONDS = 8.0
RETRY_SECONDS = 0.5


class NotAcknowledged(Exception):
    """Not all records were acknowledged; `places` has None for those that were not."""

    def __init__(self, why: str, delivery: Delivery) -> None:
        super().__init__(why)
        self._delivery = delivery

    @property
    def places(self) -> list[At | None]:
        """What Kafka has acknowledged until now: records in flight may still arrive."""
        return self._delivery.places


class ReconnectingWriter:
    """A writer that is replaced after an error, while `run` runs.

    While a batch is unacknowledged for longer than `patience`, new records are refused.
    """

    def __init__(
        self, settings: Settings, partitions: int, patience: float = WRITER_PATIENCE_SECONDS
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._patience = patience
        self._writer: Writer | None = None
        self._why_none = "connecting to Kafka"

    async def run(self) -> None:
        """Keep a writer connected until cancelled."""
        while True:
            try:
                async with writing(self._settings, partitions=self._partitions) as self._writer:
                    await self._writer.failed.wait()
                    self._why_none = f"Kafka refused what was sent: {self._writer.failure}"
            except ClusterError as error:
                self._why_none = str(error)
            finally:
                self._writer = None
            await asyncio.sleep(RETRY_SECONDS)

    @property
    def why_not(self) -> str | None:
        """Why records are refused now; None if they are accepted."""
        if self._writer is None:
            return self._why_none
        if self._writer.stuck_seconds < self._patience:
            return None
        servers = ", ".join(self._settings.bootstrap_servers)
        return f"Kafka at {servers} does not acknowledge what was sent"

    async def send(self, topic: str, rows: Sequence[Row]) -> list[At]:
        """Send rows in order, each to the partition of its key; raises `NotAcknowledged`."""
        if (why_not := self.why_not) or self._writer is None:
            raise NotAcknowledged(str(why_not), Delivery(len(rows)))
        delivery = self._writer.put(topic, rows)
        try:
            async with asyncio.timeout(self._patience):
                await delivery.done
        except TimeoutError:
            why = f"Kafka took longer than {self._patience:g} seconds"
            raise NotAcknowledged(why, delivery) from None
        except KafkaError as error:
            raise NotAcknowledged(str(error), delivery) from None
        finally:
            delivery.give_up()
        return [place for place in delivery.places if place is not None]


# Labels, at full speed or at a given rate, with the offsets that they got.


PORTION = 4000
TICK_SECONDS = 0.01

T = TypeVar("T")


async def paced(things: Sequence[T], rate: float | None) -> AsyncIterator[Sequence[T]]:
    """Yield portions of `things` in order, at `rate` things a second, or without waiting."""
    start = monotonic()
    done = 0
    while done < len(things):
        due = len(things)
        if rate is not None:
            due = min(due, 1 + int((monotonic() - start) * rate))
            if due <= done:
                await asyncio.sleep(max(TICK_SECONDS, start + done / rate - monotonic()))
                continue
        portion = things[done : min(due, done + PORTION)]
        done += len(portion)
        yield portion


class NumberedLabel(NamedTuple):
    """A label to send: `answer` is the number of a class, or `SKIP`."""

    task: str
    worker: str
    answer: int


class Sent(NamedTuple):
    """Acknowledged labels of one partition, at consecutive offsets from `first` on.

    `at` is when they were passed to the producer, by the monotonic clock.
    """

    at: float
    partition: int
    first: int
    labels: Sequence[NumberedLabel]


class _Portion(NamedTuple):
    """Labels that were passed to the producer at some time."""

    at: float
    labels: Sequence[NumberedLabel]
    delivery: Delivery

    async def acknowledged(self) -> list[Sent]:
        """Wait for the acknowledgements."""
        await self.delivery.done
        sent = []
        for partition, first, numbers in self.delivery.acknowledged:
            if first is None:
                raise Refused("Kafka received labels twice, and does not report their offsets")
            labels = [self.labels[number] for number in numbers]
            sent.append(Sent(self.at, partition, first, labels))
        return sent


class LabelSender:
    """Sends labels; those of a worker keep their order."""

    def __init__(self, writer: Writer, topic: Topic, classes: Classes) -> None:
        self.writer = writer
        self.topic = topic.name
        self.form_of = classes.label_of

    async def send_all(
        self, labels: Sequence[NumberedLabel], rate: float | None = None
    ) -> AsyncIterator[Sent]:
        """Send all in order, at most `rate` labels a second, and yield what is acknowledged."""
        in_flight: deque[_Portion] = deque()
        async for portion in paced(labels, rate):
            in_flight.append(_Portion(monotonic(), portion, self.send(portion)))
            if rate is None and len(in_flight) < 2:
                continue  # encode the next portion while this one is in flight
            for sent in await in_flight.popleft().acknowledged():
                yield sent
        for last in in_flight:
            for sent in await last.acknowledged():
                yield sent

    def send(self, labels: Iterable[NumberedLabel]) -> Delivery:
        """Begin to send labels."""
        form_of = self.form_of
        rows = [
            Row(worker.encode(), encode_label(task, worker, form_of(answer)))
            for task, worker, answer in labels
        ]
        return self.writer.put(self.topic, rows)


@asynccontextmanager
async def sending(settings: Settings) -> AsyncIterator[LabelSender]:
    """Connect a sender to the labels topic of the project."""
    topic = Topics(settings).labels
    async with writing(settings, topic) as writer:
        yield LabelSender(writer, topic, settings.crowd_classes)
