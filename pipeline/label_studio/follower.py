"""Reads the annotations of Label Studio from the labels topic, incrementally."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer

from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.kafka.reading import Reader, reading
from pipeline.label_studio.annotations import Annotations
from pipeline.label_studio.record import read_record
from pipeline.settings import Settings
from pipeline.topics import Topics


class AnnotationsFollower:
    """The annotations in the topic as of the last `catch_up`."""

    def __init__(self, settings: Settings, labels: Reader, asking: AIOKafkaConsumer) -> None:
        self.known = Annotations(settings.repeats)
        self._labels = labels
        self._asking = asking

    async def catch_up(self) -> AsyncIterator[int]:
        """Read up to the current end of the topic; yields the number of records of each portion."""
        await self._labels.move_end(self._asking)
        async for records in self._labels.to_the_end():
            for record in records:
                if found := read_record(record.value):
                    self.known.learn(found)
            yield len(records)

    async def remaining(self) -> int:
        """How many offsets remain up to the last known end."""
        return await self._labels.remaining()


@asynccontextmanager
async def following_annotations(settings: Settings) -> AsyncIterator[AnnotationsFollower]:
    """A connected follower that begins at the start of the topic."""
    asking = AIOKafkaConsumer(**client_options(settings))
    topic = Topics(settings).labels.name
    async with (
        reading(settings, topic, from_start=True) as labels,
        connected(asking, settings),
    ):
        yield AnnotationsFollower(settings, labels, asking)
