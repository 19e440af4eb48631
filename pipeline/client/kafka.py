"""The transport directly on Kafka, without a gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from aiokafka.errors import KafkaError
from orjson import dumps

from pipeline.client.errors import BadLabels, LabelProblem, NotAllowed, TimedOut, Unreachable
from pipeline.client.kafka_connections import Checked, Connections, Sending
from pipeline.client.transport import Assignment, Label, Place, Posterior
from pipeline.kafka import errors as kafka_errors
from pipeline.kafka.asking import NoAnswer
from pipeline.kafka.reading import Reader, reading
from pipeline.partitioner import partition_of
from pipeline.project.errors import Refusal
from pipeline.project.given import Given
from pipeline.records.bad import BadRecord
from pipeline.security.security import Security
from pipeline.settings import BadSetting
from pipeline.status.watch import posteriors
from pipeline.topics import Topics

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
        self._connections = Connections(given)

    async def send(self, labels: Sequence[Label]) -> list[Place]:
        """Check labels as the pipeline does, and publish them in portions."""
        places: list[Place] = []
        with self._translated():
            sending = await self._connections.sending()
            for start in range(0, len(labels), LABELS_AT_ONCE):
                portion = checked(sending, labels[start : start + LABELS_AT_ONCE], start)
                places += await self._acknowledged(sending, portion)
        return places

    async def _acknowledged(self, sending: Sending, portion: Sequence[Checked]) -> list[Place]:
        try:
            async with asyncio.timeout(self._timeout):
                in_flight = [await sending.send(each) for each in portion]
                acknowledged = await asyncio.gather(*in_flight)
        except TimeoutError:
            raise Unreachable(
                f"Kafka at {self._address} has not acknowledged the labels in {self._timeout:g} "
                "seconds; it is safe to send them again"
            ) from None
        return [Place(sent.partition, sent.offset) for sent in acknowledged]

    async def next_task(self, worker: str) -> Assignment:
        """Publish a request and wait for the assignment."""
        with self._translated():
            asker = await self._connections.asker()
            async with asyncio.timeout(self._timeout):
                answer = await asker.ask(worker)
        return Assignment(answer.task, answer.reason, answer.id, answer.expires_at)

    async def posterior(self, task: str) -> Posterior | None:
        """The last posterior of the task; the first call reads the whole partition."""
        with self._translated():
            partition = partition_of(task.encode(), await self._connections.partitions())
            return await (await self._connections.posteriors(partition)).find(task)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[Posterior]]:
        """Follow the topic from its end."""
        with self._translated():
            settings = await self._connections.settings()
            topic = Topics(settings).posteriors.name
            async with reading(settings, topic, from_start=False) as reader:
                yield _changes(reader)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (kafka_errors.Denied, kafka_errors.NotAllowed) as error:
            raise NotAllowed(str(error)) from None
        except (kafka_errors.ClusterError, Refusal) as error:
            raise Unreachable(str(error)) from None
        except KafkaError as error:
            raise Unreachable(f"Kafka at {self._address}: {error}") from None
        except (NoAnswer, TimeoutError):
            raise TimedOut(
                f"no answer in {self._timeout:g} seconds: is an instance running? See: sbic status"
            ) from None


def checked(sending: Sending, labels: Sequence[Label], start: int) -> list[Checked]:
    """Check and encode labels; raises `BadLabels`; `start` is the index of the first."""
    good, bad = [], []
    for index, label in enumerate(labels, start):
        try:
            value = dumps(dict(label))
            good.append(Checked(sending.parse(value)[1], value))
        except (BadRecord, TypeError) as problem:
            bad.append(LabelProblem(index, str(problem)))
    if bad:
        raise BadLabels(bad)
    return good


async def _changes(reader: Reader) -> AsyncIterator[Posterior]:
    while True:
        for posterior in posteriors(await reader.next(seconds=1)):
            yield dict(posterior)
