"""Follows a topic: each look fetches only the records that are new."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from sbic.project.settings import Settings


class WholeTopic:
    """All partitions of a topic, from the beginning."""

    def __init__(self, consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> None:
        self._consumer = consumer
        self._partitions = partitions

    async def new_records(self) -> list[ConsumerRecord]:
        """The records up to the current end that were not returned before, in partition order."""
        ends = await self._consumer.end_offsets(self._partitions)
        records: list[ConsumerRecord] = []
        for tp in self._partitions:
            while await self._consumer.position(tp) < ends[tp]:
                for fetched in (await self._consumer.getmany(timeout_ms=1000)).values():
                    records += fetched
        return records


@asynccontextmanager
async def following(settings: Settings, topic: str) -> AsyncIterator[WholeTopic]:
    """Follow a topic of a project."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        partitions = [TopicPartition(topic, number) for number in range(settings.partitions)]
        consumer.assign(partitions)
        yield WholeTopic(consumer, partitions)
