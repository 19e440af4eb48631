"""Connections to Kafka, each opened on first use, and closed together."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import RecordMetadata

from pipeline.client.kafka_posteriors import PartitionPosteriors
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.asking import Asker, asking
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.kafka.reading import reading
from pipeline.kafka.sending import LabelSender, sending
from pipeline.kafka.sizes import partitions_of
from pipeline.partitioner import partition_of
from pipeline.project.given import Given
from pipeline.project.opening import settings_in_project
from pipeline.records.labels import CodedLabel, label_parser
from pipeline.settings import Settings
from pipeline.topics import Topics

T = TypeVar("T")


class Checked(NamedTuple):
    """The worker of a valid label, and its value as JSON."""

    worker: str
    value: bytes


@dataclass(frozen=True)
class Sending:
    """Checks labels and publishes them."""

    sender: LabelSender
    parse: Callable[[bytes], CodedLabel]

    async def send(self, label: Checked) -> "asyncio.Future[RecordMetadata]":
        """Send a label; the result is Kafka's acknowledgement."""
        key = label.worker.encode()
        partition = partition_of(key, self.sender.partitions)
        sent = await self.sender.producer.send(
            self.sender.topic, label.value, key=key, partition=partition
        )
        return cast("asyncio.Future[RecordMetadata]", sent)


class Connections:
    """The connections of a client; one that failed to open is retried on the next use."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._opened: dict[object, object] = {}

    async def settings(self) -> Settings:
        """The settings of the project."""
        return await self._once("settings", lambda: settings_in_project(self._given))

    async def partitions(self) -> int:
        """The number of partitions of every topic of the project."""
        settings = await self.settings()
        topic = Topics(settings).posteriors.name
        return await self._once(
            "partitions", lambda: partitions_of(settings, topic, Operation.READ)
        )

    async def sending(self) -> Sending:
        """A producer of labels."""
        settings = await self.settings()

        async def opened() -> Sending:
            sender = await self._stack.enter_async_context(sending(settings))
            return Sending(sender, label_parser(settings.crowd_classes))

        return await self._once("sending", opened)

    async def asker(self) -> Asker:
        """A client that requests tasks, with its assignments followed."""
        settings = await self.settings()

        async def opened() -> Asker:
            asker = await self._stack.enter_async_context(asking(settings))
            following = asyncio.create_task(asker.follow())
            self._stack.push_async_callback(_ended, following)
            return asker

        return await self._once("asker", opened)

    async def posteriors(self, partition: int) -> PartitionPosteriors:
        """The posteriors of one partition."""
        settings = await self.settings()

        async def opened() -> PartitionPosteriors:
            topic = Topics(settings).posteriors.name
            asker = AIOKafkaConsumer(**client_options(settings))
            await self._stack.enter_async_context(connected(asker, settings))
            reader = await self._stack.enter_async_context(
                reading(settings, topic, from_start=True)
            )
            reader.read_only([partition])
            return PartitionPosteriors(reader, asker)

        return await self._once(partition, opened)

    async def close(self) -> None:
        """Close everything."""
        await self._stack.aclose()

    async def _once(self, name: object, open_it: Callable[[], Awaitable[T]]) -> T:
        async with self._opening:
            if name not in self._opened:
                self._opened[name] = await open_it()
            return cast(T, self._opened[name])


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
