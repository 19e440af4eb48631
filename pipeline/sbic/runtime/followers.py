"""Followers: every instance reads the assignments, and the estimates of the others."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from math import inf
from operator import attrgetter
from time import monotonic, time
from typing import Any, TypeVar

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from mode import Service

from sbic.instance.instance import Instance
from sbic.instance.leases import Leases
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.reader import Reader, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.runtime.faust.recovery import NOTHING_TO_READ, at_this_rate
from sbic.runtime.publisher import Rejects
from sbic.wire.assignments import parse_assignment
from sbic.wire.seal import NOT_SEALED, Seal
from sbic.wire.workers import RosterPartition

MOST_SECONDS = 120
SECONDS_BETWEEN = 0.5

T = TypeVar("T")


async def retry(ask: Callable[[], Awaitable[T]], on: type[Exception]) -> T:
    """Return what `ask` returns; while it raises `on`, call it again for up to two minutes.

    >>> answers = iter([ConnectionError, ConnectionError, 42])
    >>> async def ask() -> int:
    ...     answer = next(answers)
    ...     if answer is ConnectionError:
    ...         raise ConnectionError
    ...     return answer
    >>> asyncio.run(retry(ask, ConnectionError))
    42
    """
    last = monotonic() + MOST_SECONDS
    while True:
        try:
            return await ask()
        except on:
            if monotonic() > last:
                raise
        await asyncio.sleep(SECONDS_BETWEEN)


# Reads the votes that are in the votes topic when an instance acquires partitions.
#
# Votes on own tasks do not go through the topic: they are written to the evidence at once. Earlier
# votes of the same workers may still be in the topic, if another instance owned the workers or the
# tasks then. They are counted first: a later owner restores the evidence in the order of its
# records.


def by_partition(records: list[ConsumerRecord]) -> Iterator[tuple[int, list[ConsumerRecord]]]:
    """Split records that were fetched together."""
    for partition, some in groupby(records, key=attrgetter("partition")):
        yield partition, list(some)


async def unread_votes(
    settings: Settings, partitions: set[int]
) -> AsyncIterator[tuple[int, list[ConsumerRecord]]]:
    """Yield the records of each partition from the committed offset to the current end."""
    topic = Topics(settings).votes.name
    # the group is the one whose offsets they are; it is not joined
    consumer = new_consumer(settings, group_id=settings.prefix, isolation_level="read_committed")
    async with connected(consumer, settings):
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        consumer.assign(places)
        reader = Reader(consumer, places, await consumer.end_offsets(places))
        async for records in reader.to_the_end():
            for part in by_partition(records):
                yield part


# Reads the roster of the workers whose requests an instance answers.


async def read_roster(
    settings: Settings, instance: Instance[ConsumerRecord], partitions: set[int]
) -> dict[int, RosterPartition]:
    """Read the roster of these partitions to its current end; the group goes on from before it."""
    found = {partition: RosterPartition() for partition in partitions}
    async with reading(settings, Topics(settings).roster.name, from_start=True) as reader:
        reader.read_only(partitions)
        async for records in reader.to_the_end():
            for record in records:
                instance.read_roster(record, found[record.partition])
    return found


# Reads all partitions of a topic, so that every instance knows the whole of it.


RECORDS_AT_ONCE = 2000  # so that agents run while a long topic is read


class Follower(Service):
    """Follows all partitions of a topic, on a connection of its own.

    With `from_start`, starting takes until it has caught up; otherwise it begins at the current
    end. A subclass learns from the records, and may do more `after_reading`. `advanced` is set
    after each read with records.
    """

    from_start = True
    at_once = RECORDS_AT_ONCE

    def __init__(self, settings: Settings, topic: Topic, name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.client_id = f"{settings.prefix}-{name}"
        self.partitions = [TopicPartition(topic.name, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.caught_up = False
        self.advanced = asyncio.Event()
        self.progress = NOTHING_TO_READ

    @abstractmethod
    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Take the next records of a partition."""

    def after_reading(self) -> None:
        """Do what is due after each read, and every second without any record."""

    async def on_start(self) -> None:
        """Read everything up to the current end of the topic, or seek to it."""
        reset = "earliest" if self.from_start else "latest"
        consumer = new_consumer(self.settings, client_id=self.client_id, auto_offset_reset=reset)
        await consumer.start()
        consumer.assign(self.partitions)
        ends = await consumer.end_offsets(self.partitions)
        self.reader = Reader(consumer, self.partitions, ends, self.at_once)
        if self.from_start:
            await self._catch_up()
        for tp, end in ends.items():
            if not self.from_start:
                consumer.seek(tp, end)
            # the last offsets may have no records, for example after compaction
            self.positions[tp.partition] = max(self.positions[tp.partition], end)
        self.caught_up = True

    async def _catch_up(self) -> None:
        begins = await self.reader.consumer.beginning_offsets(self.partitions)
        total = sum(self.reader.ends.values()) - sum(begins.values())
        begun = monotonic()
        async for records in self.reader.to_the_end():
            await self._take(records)
            read = sum(
                min(max(position, begins[tp]), self.reader.ends[tp]) - begins[tp]
                for tp, position in zip(self.partitions, self.positions, strict=True)
            )
            self.progress = at_this_rate(read, total, monotonic() - begun)

    async def on_stop(self) -> None:
        await self.reader.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self._take(await self.reader.next(seconds=1))
            self.after_reading()

    async def _take(self, records: list[ConsumerRecord]) -> None:
        for partition, some in by_partition(records):
            await self.learn(partition, some)
            self.positions[partition] = some[-1].offset + 1
            await asyncio.sleep(0)  # fetched records come without waiting: let other tasks run
        if records:
            self.advanced.set()


# Reads the whole assignments topic into the leases: every instance knows who has which task.


class AssignmentsFollower(Follower):
    """Follows the assignments of all partitions, including those of this instance.

    The policy agent has added its own to the leases already; adding them again changes nothing.
    """

    def __init__(
        self,
        settings: Settings,
        leases: Leases,
        seal: Seal,
        rejects: Rejects,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, Topics(settings).assignments, "leases", **kwargs)
        self.leases = leases
        self.seal = seal
        self.rejects = rejects

    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Add assignments and the ends of leases to the leases."""
        now = int(time() * 1000)
        genuine, forged = self.seal.sort(records)
        for record in forged:
            self.rejects.add(record, NOT_SEALED)
        for record in genuine:
            self.leases.learn(parse_assignment(record.value), partition, now)

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Wait until everything up to the current ends of these partitions is read."""
        places = [self.partitions[partition] for partition in partitions]
        ends: dict[TopicPartition, int] = await retry(
            lambda: self.reader.consumer.end_offsets(places), on=KafkaError
        )
        while any(self.positions[tp.partition] < end for tp, end in ends.items()):
            self.advanced.clear()
            await self.advanced.wait()


# Follows the estimates of the other instances: every instance knows every task and worker.


ESTIMATES_AT_ONCE = 200  # so that agents run while many estimates are read
ASK_SECONDS = 2.0  # before asking: after a rebalance all owners publish everything unasked
ANSWER_SECONDS = 1.5  # at least, between two answers, whichever instances ask


class EstimatesFollower(Follower):
    """Reads the estimates of the partitions of other instances, beginning at its start.

    Earlier estimates need not be read: all owners publish everything after a rebalance, and this
    instance joins the group only after it has started to read.
    """

    from_start = False
    at_once = ESTIMATES_AT_ONCE

    def __init__(
        self,
        settings: Settings,
        instance: Instance[ConsumerRecord],
        rejects: Rejects,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, Topics(settings).estimates, "estimates", **kwargs)
        self.instance = instance
        self.exchange = instance.exchange
        self.rejects = rejects
        self.answered_at = -inf

    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply estimates; those of an own partition that nobody has sealed are dead letters."""
        for record in records:
            bad = self.instance.hear(partition, record)
            if bad is not None:
                self.rejects.add(record, bad)

    def after_reading(self) -> None:
        """Answer who has asked, and close tasks if others have spent the budget."""
        self._answer()
        self.instance.check_budget()

    def _answer(self) -> None:
        """Publish everything if another instance has asked for it, but not too often."""
        if monotonic() > self.answered_at + ANSWER_SECONDS and self.exchange.take_request():
            self.answered_at = monotonic()
            self.instance.publish_all_estimates()

    async def receive_all(self) -> None:
        """Wait until the estimates of all other partitions are known; ask for missing ones."""
        ask_at = monotonic() + ASK_SECONDS
        while self.exchange.missing:
            self.advanced.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self.advanced.wait()
            if self.exchange.missing and monotonic() > ask_at:
                self.instance.publish_estimates(self.exchange.request())
                ask_at = monotonic() + ASK_SECONDS

    def lag(self) -> int:
        """Return how many records of other instances are not read yet."""
        if not self.caught_up:
            return 0
        ends = (self.reader.consumer.highwater(tp) or 0 for tp in self.partitions)
        lags = (max(0, end - here) for end, here in zip(ends, self.positions, strict=True))
        own = self.exchange.crowd.has_tasks_of
        return sum(lag for partition, lag in enumerate(lags) if not own[partition])
