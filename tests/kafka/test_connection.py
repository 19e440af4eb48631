"""A connection error of a command is one line, and the command always ends."""

import ast
import asyncio
import gc
from pathlib import Path
from time import monotonic

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError

from sbic.kafka import connect as connection
from sbic.kafka.connect import client_options, connected, new_consumer
from sbic.kafka.errors import ClusterError, KafkaUnreachable, MissingRights, Refused
from sbic.kafka.writer import PORTION, paced
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


# Every Kafka client is made with the options of the one place that knows how to connect.


ROOT = Path(__file__).parent.parent.parent
CLIENTS = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient", "AIOKafkaClient"}
FOLDERS = ("pipeline", "tests/soak", "tests/benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def clients_without_options(source: str) -> list[int]:
    """The lines on which a client is made of other options."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CLIENTS
        and not any(_is_options(keyword, source) for keyword in node.keywords)
    ]


def _is_options(keyword: ast.keyword, source: str) -> bool:
    value = ast.get_source_segment(source, keyword.value) or ""
    if keyword.arg is not None:
        return False
    return value.startswith("client_options(") or (
        value == "options" and "options = client_options(" in source
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_client_is_made_without_them(path: Path) -> None:
    assert not clients_without_options(path.read_text())


def test_the_check_sees_a_client_without_them() -> None:
    source = "AIOKafkaConsumer('labels', bootstrap_servers=settings.bootstrap_servers)"
    assert clients_without_options(source) == [1]
    assert clients_without_options("AIOKafkaProducer(**client_options(settings), acks=1)") == []


def test_all_clients_are_made_in_one_file() -> None:
    made_in = {
        path.relative_to(ROOT / "pipeline/sbic").as_posix()
        for path in FILES
        if path.is_relative_to(ROOT / "pipeline/sbic")
        and any(f"{client}(" in path.read_text() for client in CLIENTS)
    }
    assert made_in == {"kafka/connect.py"}


def test_secrets_reach_clients(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    settings = Settings.from_env(
        {
            "SBIC_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SBIC_SASL_MECHANISM": "SCRAM-SHA-256",
            "SBIC_SASL_USERNAME": "ann",
            "SBIC_SASL_PASSWORD_FILE": str(tmp_path / "password"),
        }
    )
    assert client_options(settings) == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "from a file",
    }


# All items are handed out, in order, and never faster than the rate.


async def test_without_a_rate_all_come_in_order_in_portions() -> None:
    things = list(range(2 * PORTION + 5))
    portions = [portion async for portion in paced(things, None)]
    assert [thing for portion in portions for thing in portion] == things
    assert max(map(len, portions)) == PORTION


async def test_with_a_rate_never_more_than_are_due() -> None:
    things = list(range(60))
    start = monotonic()
    done: list[int] = []
    async for portion in paced(things, 200):
        done += portion
        assert len(done) <= 1 + (monotonic() - start) * 200
    assert done == things
