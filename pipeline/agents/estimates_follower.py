"""Follows the estimates of the other instances: every instance knows every task and worker."""

import asyncio
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.agents.own_estimates import OwnEstimates
from pipeline.agents.publisher import Publisher
from pipeline.agents.rejects import Rejects
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.stages.exchange import Exchange
from pipeline.topics import Topics

RECORDS_AT_ONCE = 200  # so that agents run while many estimates are read
ASK_SECONDS = 2.0  # before asking: after a rebalance all owners publish everything unasked
ANSWER_SECONDS = 1.5  # at least, between two answers, whichever instances ask


class EstimatesFollower(Service):
    """Reads the estimates of the partitions of other instances, beginning at its start.

    Earlier estimates need not be read: all owners publish everything after a rebalance, and this
    instance joins the group only after it has started to read.
    """

    def __init__(
        self,
        settings: Settings,
        exchange: Exchange,
        own: OwnEstimates,
        publisher: Publisher,
        rejects: Rejects,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.exchange = exchange
        self.own = own
        self.publisher = publisher
        self.rejects = rejects
        topic = Topics(settings).estimates.name
        self.partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.is_reading = False
        self.received = asyncio.Event()
        self.answered_at = -inf

    async def on_start(self) -> None:
        """Seek to the current end of the topic."""
        self.consumer = AIOKafkaConsumer(
            **client_options(self.settings),
            client_id=f"{self.settings.prefix}-estimates",
            enable_auto_commit=False,
            auto_offset_reset="latest",
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        await self.consumer.seek_to_end(*self.partitions)
        for tp in self.partitions:
            self.positions[tp.partition] = await self.consumer.position(tp)
        self.is_reading = True

    async def on_stop(self) -> None:
        """Stop the client."""
        await self.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
            for tp, records in fetched.items():
                self.receive(tp.partition, records)
                self.positions[tp.partition] = records[-1].offset + 1
                await asyncio.sleep(0)  # let other tasks run
            self.own.check()
            self._answer()
            if fetched:
                self.received.set()
                self.publisher.check_budget()

    def receive(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply the estimates of another instance, or check those of an own partition."""
        if self.exchange.crowd.has_tasks_of[partition]:
            self.own.read(records)
            return
        for record in records:
            bad = self.exchange.receive(partition, record.value)
            if bad is not None:
                self.rejects.add(record, bad)

    def receive_from_next_owner(self, partition: int) -> None:
        """Apply the estimates that the next owner has published before this instance released it.

        An owner publishes everything only once. If this instance was stalled, that may be long ago.
        """
        self.receive(partition, self.own.take(partition))

    def _answer(self) -> None:
        """Publish everything if another instance has asked for it, but not too often."""
        if monotonic() > self.answered_at + ANSWER_SECONDS and self.exchange.take_request():
            self.answered_at = monotonic()
            self.publisher.publish_all_estimates()

    async def receive_all(self) -> None:
        """Wait until the estimates of all other partitions are known; ask for missing ones."""
        ask_at = monotonic() + ASK_SECONDS
        while self.exchange.missing:
            self.received.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self.received.wait()
            if self.exchange.missing and monotonic() > ask_at:
                self.publisher.publish_estimates(self.exchange.request())
                ask_at = monotonic() + ASK_SECONDS

    def lag(self) -> int:
        """Return how many records of other instances are not read yet."""
        if not self.is_reading:
            return 0
        ends = (self.consumer.highwater(tp) or 0 for tp in self.partitions)
        lags = (max(0, end - here) for end, here in zip(ends, self.positions, strict=True))
        own = self.exchange.crowd.has_tasks_of
        return sum(lag for partition, lag in enumerate(lags) if not own[partition])
