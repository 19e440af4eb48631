"""A connection error of a command is one line, and the command always ends."""

import asyncio
import gc

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError

from sbic.kafka import connect as connection
from sbic.kafka.connect import client_options, connected, new_consumer
from sbic.kafka.errors import ClusterError, KafkaUnreachable, MissingRights, Refused
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics


class ScriptedClient:
    """A client that starts and stops as the test chooses; other tests use real ones."""

    def __init__(self, *, starts: bool = True, stops: bool = True) -> None:
        self.starts = starts
        self.stops = stops

    async def start(self) -> None:
        await self.never_unless(self.starts)

    async def stop(self) -> None:
        await self.never_unless(self.stops)

    async def never_unless(self, done: bool) -> None:
        if not done:
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (KafkaConnectionError(), KafkaUnreachable, "no Kafka answers at 127.0.0.1:9092"),
        (KafkaTimeoutError(), Refused, "Kafka at 127.0.0.1:9092 no longer answers"),
        (
            TopicAuthorizationFailedError("sbic.x"),
            MissingRights,
            "not authorized to describe topic sbic.x",
        ),
        (TopicAuthorizationFailedError(), Refused, "TopicAuthorizationFailed"),
    ],
)
async def test_an_error_of_kafka_becomes_one_of_ours(
    raised: Exception, expected: type[ClusterError], words: str
) -> None:
    with pytest.raises(expected, match=words):
        async with connected(ScriptedClient(), Settings()):
            raise raised


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.01)
    with pytest.raises(KafkaUnreachable):
        async with connected(ScriptedClient(starts=False), Settings()):
            pass


async def test_a_client_that_cannot_stop_because_kafka_is_gone_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "STOP_SECONDS", 0.01)
    with pytest.raises(KeyError):
        async with connected(ScriptedClient(stops=False), Settings()):
            raise KeyError


async def test_a_client_that_is_cancelled_while_it_connects_leaves_no_connection_open(
    broker: EmbeddedBroker,
) -> None:
    settings = Settings(broker=broker.url)

    async def connect() -> None:
        async with connected(AIOKafkaProducer(**client_options(settings)), settings):
            await asyncio.Event().wait()

    for milliseconds in range(20):
        connecting = asyncio.create_task(connect())
        await asyncio.sleep(milliseconds / 1000)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        gc.collect()  # a connection that is left open warns, and so fails the test


async def test_a_task_that_is_cancelled_while_its_client_stops_is_cancelled(
    broker: EmbeddedBroker, project: Settings
) -> None:
    topic = TopicPartition(Topics(project).labels.name, 0)

    async def connect(stopping: asyncio.Event) -> None:
        async with connected(new_consumer(project), project) as consumer:
            consumer.assign([topic])
            await consumer.getmany(timeout_ms=50)
            stopping.set()
        await asyncio.Event().wait()

    for steps in range(20):
        stopping = asyncio.Event()
        connecting = asyncio.create_task(connect(stopping))
        await stopping.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        connecting.cancel()
        done, _ = await asyncio.wait([connecting], timeout=10)
        assert done, f"lost the cancellation after {steps} steps"
        assert connecting.cancelled()
