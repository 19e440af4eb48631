"""Reads the whole assignments topic into the leases: every instance knows who has which task."""

import asyncio
from collections.abc import Iterable
from time import time
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.records.assignments import parse_assignment
from pipeline.records.bad import BadRecord
from pipeline.settings import Settings
from pipeline.stages.leases import Leases
from pipeline.topics import Topics

RECORDS_AT_ONCE = 2000  # so that reading a long topic leaves time for the agents


class AssignmentsFollower(Service):
    """Follows the assignments of all partitions; started, it has read all that was there.

    The instance's own come as well. The policy agent has put them into the leases when it made
    them, and what is learned twice changes nothing.
    """

    def __init__(self, settings: Settings, leases: Leases, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.leases = leases
        topic = Topics(settings).assignments.name
        self.partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.advanced = asyncio.Event()
        self.caught_up = False

    async def on_start(self) -> None:
        """Read everything up to the end that the topic has now."""
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers,
            client_id=f"{self.settings.prefix}-leases",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        ends = await self.consumer.end_offsets(self.partitions)
        for tp in self.partitions:
            while await self.consumer.position(tp) < ends[tp]:
                await self._read()
            self.positions[tp.partition] = ends[tp]
        self.caught_up = True

    async def on_stop(self) -> None:
        """Leave."""
        await self.consumer.stop()

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Wait until all is known that these partitions have now."""
        ends = await self.consumer.end_offsets([self.partitions[p] for p in partitions])
        while any(self.positions[tp.partition] < end for tp, end in ends.items()):
            self.advanced.clear()
            await self.advanced.wait()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self._read()

    async def _read(self) -> None:
        fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
        for tp, records in fetched.items():
            self._learn(records)
            self.positions[tp.partition] = records[-1].offset + 1
        self.advanced.set()

    def _learn(self, records: list[ConsumerRecord]) -> None:
        now = int(time() * 1000)
        for record in records:
            try:
                self.leases.learn(parse_assignment(record.value), now)
            except BadRecord:
                continue  # written by a stranger
