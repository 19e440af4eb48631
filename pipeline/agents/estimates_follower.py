"""Follows the estimates of the other instances: every instance knows of every task and worker."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.agents.own_estimates import OwnEstimates
from pipeline.agents.rejects import Rejects
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.stages.exchange import Exchange
from pipeline.topics import Topics

RECORDS_AT_ONCE = 200  # so that much news leaves time for the agents
ASK_SECONDS = 2.0  # without having heard of all: the others tell by themselves after a rebalance
ANSWER_SECONDS = 1.5  # at least, between two answers, whoever asks


class EstimatesFollower(Service):
    """Reads the estimates of all partitions but its instance's own, from its start on.

    What was told before that is told again: all owners tell everything after a rebalance, and this
    instance joins the group only when it is listening.
    """

    def __init__(
        self,
        settings: Settings,
        exchange: Exchange,
        own: OwnEstimates,
        rejects: Rejects,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.exchange = exchange
        self.own = own
        self.rejects = rejects
        topic = Topics(settings).estimates.name
        self.partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.is_listening = False
        self.heard = asyncio.Event()
        self.listeners: list[Callable[[], None]] = []
        self.answered_at = -inf

    async def on_start(self) -> None:
        """Begin at the end that the topic has now."""
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
        self.is_listening = True

    async def on_stop(self) -> None:
        """Leave."""
        await self.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
            for tp, records in fetched.items():
                self._hear(tp.partition, records)
                self.positions[tp.partition] = records[-1].offset + 1
                await asyncio.sleep(0)  # others get a turn
            self.own.check()
            self._answer()
            if fetched:
                self.heard.set()
                for listener in self.listeners:
                    listener()

    def _hear(self, partition: int, records: list[ConsumerRecord]) -> None:
        if self.exchange.crowd.has_tasks_of[partition]:
            self.own.read(partition, records)
            return
        for record in records:
            bad = self.exchange.receive(partition, record.value)
            if bad is not None:
                self.rejects.add(record, bad)

    def hear_next_owner(self, partition: int) -> None:
        """Hear what the next owner of a partition has told before this instance gave it up.

        It tells everything once, and may have been the owner for long if this one was stalled.
        """
        self._hear(partition, self.own.take(partition))

    def _answer(self) -> None:
        """Tell everything again, if somebody has asked for it and this was not done just now."""
        if self.exchange.is_requested and monotonic() > self.answered_at + ANSWER_SECONDS:
            self.exchange.is_requested = False
            self.answered_at = monotonic()
            self.own.publisher.tell_anew()

    async def hear_of_all(self) -> None:
        """Wait until all partitions have been heard of that are elsewhere; ask for what is not."""
        ask_at = monotonic() + ASK_SECONDS
        while self.exchange.missing:
            self.heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self.heard.wait()
            if self.exchange.missing and monotonic() > ask_at:
                self.own.publisher.tell(self.exchange.request())
                ask_at = monotonic() + ASK_SECONDS

    def lag(self) -> int:
        """How many records of other instances are not yet heard."""
        if not self.is_listening:
            return 0
        ends = (self.consumer.highwater(tp) or 0 for tp in self.partitions)
        lags = (max(0, end - here) for end, here in zip(ends, self.positions, strict=True))
        own = self.exchange.crowd.has_tasks_of
        return sum(lag for partition, lag in enumerate(lags) if not own[partition])
