"""Reads a whole topic, whoever owns its partitions: what every instance has to know."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.settings import Settings
from pipeline.topics import Topic

RECORDS_AT_ONCE = 2000  # so that reading a long topic leaves time for the agents


class Follower(Service):
    """Follows all partitions of a topic; started, it has read all that was there.

    A subclass says what there is to learn from the records.
    """

    def __init__(self, settings: Settings, topic: Topic, reader: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.client_id = f"{settings.prefix}-{reader}"
        self.partitions = [TopicPartition(topic.name, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.caught_up = False
        self.learned: Callable[[], None] = lambda: None  # called after each read

    @abstractmethod
    def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Take the next records of a partition."""

    async def on_start(self) -> None:
        """Read everything up to the end that the topic has now."""
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers,
            client_id=self.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        ends = await self.consumer.end_offsets(self.partitions)
        for tp in self.partitions:
            while await self.consumer.position(tp) < ends[tp]:
                await self._read()
            # of the last offsets there may be no records left to read
            self.positions[tp.partition] = max(self.positions[tp.partition], ends[tp])
        self.caught_up = True

    async def on_stop(self) -> None:
        """Leave."""
        await self.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self._read()

    async def _read(self) -> None:
        fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
        for tp, records in fetched.items():
            self.learn(tp.partition, records)
            self.positions[tp.partition] = records[-1].offset + 1
        if fetched and self.caught_up:
            self.learned()
