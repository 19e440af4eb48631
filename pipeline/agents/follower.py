"""Reads all partitions of a topic, so that every instance knows the whole of it."""

import asyncio
from abc import abstractmethod
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.batched.progress import NOTHING_TO_READ, Progress, at_this_rate
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.topics import Topic

RECORDS_AT_ONCE = 2000  # so that agents run while a long topic is read


class Follower(Service):
    """Follows all partitions of a topic; starting takes until it has caught up.

    A subclass learns from the records. `advanced` is set after each read.
    """

    def __init__(self, settings: Settings, topic: Topic, reader: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.client_id = f"{settings.prefix}-{reader}"
        self.partitions = [TopicPartition(topic.name, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.caught_up = False
        self.advanced = asyncio.Event()
        self.progress = NOTHING_TO_READ

    @abstractmethod
    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Take the next records of a partition."""

    async def on_start(self) -> None:
        """Read everything up to the current end of the topic."""
        self.consumer = AIOKafkaConsumer(
            **client_options(self.settings),
            client_id=self.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        begins = await self.consumer.beginning_offsets(self.partitions)
        ends = await self.consumer.end_offsets(self.partitions)
        begun = monotonic()
        for tp in self.partitions:
            while await self.consumer.position(tp) < ends[tp]:
                await self._read()
                self.progress = self._progress(begins, ends, monotonic() - begun)
            # the last offsets may have no records, for example after compaction
            self.positions[tp.partition] = max(self.positions[tp.partition], ends[tp])
        self.caught_up = True

    def _progress(
        self, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int], seconds: float
    ) -> Progress:
        read = sum(
            min(max(position, begins[tp]), ends[tp]) - begins[tp]
            for tp, position in zip(self.partitions, self.positions, strict=True)
        )
        return at_this_rate(read, sum(ends.values()) - sum(begins.values()), seconds)

    async def on_stop(self) -> None:
        """Stop the client."""
        await self.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self._read()

    async def _read(self) -> None:
        fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
        for tp, records in fetched.items():
            await self.learn(tp.partition, records)
            self.positions[tp.partition] = records[-1].offset + 1
        if fetched:
            self.advanced.set()
        await asyncio.sleep(0)  # fetched records come without waiting: let other tasks run
