"""The transport directly on Kafka, without a gateway."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from orjson import dumps, loads

from sbic.client.transport import (
    Assignment,
    BadLabels,
    Label,
    LabelProblem,
    NotAllowed,
    Place,
    Posterior,
    TimedOut,
    Unreachable,
)
from sbic.kafka import errors
from sbic.kafka.connect import connected
from sbic.kafka.reader import Reader, committed_consumer, keep_last, parsed, readable, reading
from sbic.kafka.requests import Asker, asking
from sbic.kafka.writer import LabelSender, sending
from sbic.project.opening import RefusedSettings, settings_in_project
from sbic.project.revision import Given
from sbic.project.security import Security
from sbic.project.settings import BadSetting, Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.labels import CodedLabel, label_parser
from sbic.wire.partitions import Row, partition_of
from sbic.wire.posteriors import PosteriorParser, posterior_parser


class PartitionPosteriors:
    """The last record of each task of a partition, cached between calls."""

    def __init__(self, reader: Reader, asking: AIOKafkaConsumer, parse: PosteriorParser) -> None:
        self._reader = reader
        self._parse = parse
        self._asking = asking
        self._last: dict[bytes, bytes] = {}
        self._reading = asyncio.Lock()

    async def find(self, task: str) -> Posterior | None:
        """Return the posterior of a task, including all records published before this call."""
        async with self._reading:
            await self._reader.move_end(self._asking)
            async for records in self._reader.to_the_end():
                keep_last(self._last, records)
        value = self._last.get(task.encode())
        is_good = value is not None and readable(self._parse, value) is not None
        return loads(value) if value is not None and is_good else None


# Connections to Kafka, each opened on first use, and closed together.


T = TypeVar("T")


@dataclass(frozen=True)
class Sending:
    """Checks labels and publishes them."""

    sender: LabelSender
    parse: Callable[[bytes], CodedLabel]

    async def send(self, rows: Sequence[Row]) -> list[Place]:
        """Send labels, and wait until Kafka has acknowledged them."""
        return [Place(*at) for at in await self.sender.writer.send(self.sender.topic, rows)]


class ClientConnections:
    """The connections of a client; one that failed to open is retried on the next use."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._opened: dict[object, object] = {}

    async def settings(self) -> Settings:
        """Return the settings of the project."""
        return await self._once("settings", lambda: settings_in_project(self._given))

    async def sending(self) -> Sending:
        """Return a producer of labels."""
        settings = await self.settings()

        async def opened() -> Sending:
            sender = await self._stack.enter_async_context(sending(settings))
            return Sending(sender, label_parser(settings.crowd_classes))

        return await self._once("sending", opened)

    async def asker(self) -> Asker:
        """Return a client that requests tasks, with its assignments followed."""
        settings = await self.settings()

        async def opened() -> Asker:
            return await self._stack.enter_async_context(asking(settings))

        return await self._once("asker", opened)

    async def posteriors(self, partition: int) -> PartitionPosteriors:
        """Return the posteriors of one partition."""
        settings = await self.settings()

        async def opened() -> PartitionPosteriors:
            topic = Topics(settings).posteriors.name
            asker = await self._stack.enter_async_context(
                connected(committed_consumer(settings), settings)
            )
            reader = await self._stack.enter_async_context(
                reading(settings, topic, from_start=True)
            )
            reader.read_only([partition])
            return PartitionPosteriors(reader, asker, posterior_parser(settings.crowd_classes))

        return await self._once(partition, opened)

    async def close(self) -> None:
        """Close everything."""
        await self._stack.aclose()

    async def _once(self, name: object, open_it: Callable[[], Awaitable[T]]) -> T:
        async with self._opening:
            if name not in self._opened:
                self._opened[name] = await open_it()
            return cast(T, self._opened[name])


LABELS_AT_ONCE = 5000


class KafkaTransport:
    """Opens connections to Kafka as needed: to send labels, to request tasks, to read."""

    def __init__(self, address: str, prefix: str, timeout: float) -> None:
        try:
            given = Given({"broker": address, "prefix": prefix}, Security.from_env())
            self._address = ", ".join(given.settings.bootstrap_servers)
        except BadSetting as bad:
            raise ValueError(str(bad)) from None
        self._timeout = timeout
        self._connections = ClientConnections(given)

    async def send(self, labels: Sequence[Label]) -> list[Place]:
        """Check labels as the pipeline does, and publish them in portions."""
        places: list[Place] = []
        with self._translated():
            sending = await self._connections.sending()
            for start in range(0, len(labels), LABELS_AT_ONCE):
                portion = checked(sending, labels[start : start + LABELS_AT_ONCE], start)
                places += await self._acknowledged(sending, portion)
        return places

    async def _acknowledged(self, sending: Sending, portion: Sequence[Row]) -> list[Place]:
        try:
            async with asyncio.timeout(self._timeout):
                return await sending.send(portion)
        except TimeoutError:
            raise Unreachable(
                f"Kafka at {self._address} has not acknowledged the labels in {self._timeout:g} "
                "seconds; it is safe to send them again"
            ) from None

    async def next_task(self, worker: str) -> Assignment:
        """Publish a request and wait for the assignment."""
        with self._translated():
            asker = await self._connections.asker()
            async with asyncio.timeout(self._timeout):
                answers = await asker.ask(worker)
            if not answers:
                raise TimeoutError
        (answer,) = answers
        return Assignment(
            answer["task"], answer.get("reason"), answer["id"], answer.get("expires_at")
        )

    async def posterior(self, task: str) -> Posterior | None:
        """Return the last posterior of the task; the first call reads the whole partition."""
        with self._translated():
            settings = await self._connections.settings()
            partition = partition_of(task.encode(), settings.partitions)
            return await (await self._connections.posteriors(partition)).find(task)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[Posterior]]:
        """Follow the topic from its end."""
        with self._translated():
            settings = await self._connections.settings()
            topic = Topics(settings).posteriors.name
            async with reading(settings, topic, from_start=False) as reader:
                yield _changes(reader, posterior_parser(settings.crowd_classes))

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (errors.Denied, errors.MissingRights) as error:
            raise NotAllowed(str(error)) from None
        except (errors.ClusterError, RefusedSettings) as error:
            raise Unreachable(str(error)) from None
        except KafkaError as error:
            raise Unreachable(f"Kafka at {self._address}: {error}") from None
        except TimeoutError:
            raise TimedOut(
                f"no answer in {self._timeout:g} seconds: is an instance running? See: sbic status"
            ) from None


def checked(sending: Sending, labels: Sequence[Label], start: int) -> list[Row]:
    """Check and encode labels; raises `BadLabels`; `start` is the index of the first."""
    good, bad = [], []
    for index, label in enumerate(labels, start):
        try:
            value = dumps(dict(label))
            good.append(Row(sending.parse(value)[1].encode(), value))
        except (BadRecord, TypeError) as problem:
            bad.append(LabelProblem(index, str(problem)))
    if bad:
        raise BadLabels(bad)
    return good


async def _changes(reader: Reader, parse: PosteriorParser) -> AsyncIterator[Posterior]:
    async for records in reader.follow():
        for record, _ in parsed(records, parse):
            yield loads(record.value)
