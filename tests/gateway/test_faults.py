"""Faults of a gateway: Kafka is away and comes back, SIGTERM, a port that is taken."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout
from orjson import loads

from sbic.kafka.writer import NotAcknowledged, ReconnectingWriter
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import Row, partition_of
from tests.agents.kafka import ProjectOnBroker, until
from tests.brokers import needs_proc, paused
from tests.gateway.client import new_project, running_gateway, sbic_gateway
from tests.projects import sbic

LABEL = {"task": "t1", "worker": "ann", "label": 1}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=tmp_path_factory.mktemp("kafka"), port=free_port()) as running:
        yield running


@asynccontextmanager
async def reconnecting(settings: Settings, patience: float) -> AsyncIterator[ReconnectingWriter]:
    made = ReconnectingWriter(settings, settings.partitions, patience)
    running = asyncio.create_task(made.run())
    try:

        async def is_connected() -> bool:
            return made.why_not is None

        await until(is_connected)
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@needs_proc
async def test_while_kafka_hangs_nothing_is_taken_and_afterwards_all_is(
    own_broker: EmbeddedBroker,
) -> None:
    """What timed out arrives once or not at all, and what comes later arrives."""
    settings = await new_project(own_broker)
    topic = Topics(settings).labels.name
    async with reconnecting(settings, patience=1.0) as sender:
        (place,) = await sender.send(topic, [Row(b"ann", b"0")])
        assert place.offset == 0
        with paused(own_broker):
            with pytest.raises(NotAcknowledged, match="longer than 1 seconds") as late:
                await sender.send(topic, [Row(b"ann", b"1")])
            assert late.value.places == [None]
            with pytest.raises(NotAcknowledged, match="does not acknowledge"):
                await sender.send(topic, [Row(b"ann", b"2")])

        async def is_back() -> bool:
            return sender.why_not is None

        await until(is_back)
        await sender.send(topic, [Row(b"ann", b"3")])
    values = [record.value for record in await ProjectOnBroker(settings).read(topic)]
    assert values == [b"0", b"1", b"3"]


@needs_proc
async def test_what_was_acknowledged_is_told_when_the_rest_was_not(
    own_broker: EmbeddedBroker,
) -> None:
    settings = await new_project(own_broker)
    topic = Topics(settings).labels.name
    async with reconnecting(settings, patience=30.0) as sender:
        (first,) = await sender.send(topic, [Row(b"ann", b"0")])
        # Kafka refuses what is larger than the topic allows, and takes the other partition's
        names = (b"w%d" % number for number in range(99))
        other = next(w for w in names if partition_of(w, settings.partitions) != first.partition)
        rows = [Row(b"ann", b"1" * (2 << 20)), Row(other, b"2")]
        with pytest.raises(NotAcknowledged) as partly:
            await sender.send(topic, rows)
        await until(lambda: is_known(partly.value))
    assert partly.value.places[0] is None
    assert partly.value.places[1] is not None


async def is_known(partly: NotAcknowledged) -> bool:
    return partly.places[1] is not None


async def test_a_kafka_that_is_away_is_503_and_back_again(own_broker: EmbeddedBroker) -> None:
    settings = await new_project(own_broker)
    async with running_gateway([settings]) as client:
        await client.until_ready()
        own_broker.stop()
        await client.until("/readyz", lambda answer: answer.status == 503)
        assert (await client.get("/status")).status == 200  # what is known
        refused = await client.post("/labels", LABEL)
        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json["labels"] == [None]
        own_broker.start()
        await client.until_ready()
        assert (await client.post("/labels", LABEL)).status == 200


async def test_a_gateway_without_kafka_answers_that_it_lives() -> None:
    async with running_gateway([Settings(broker=f"kafka://127.0.0.1:{free_port()}")]) as client:
        assert (await client.get("/healthz")).status == 200
        refused = await client.post("/labels", LABEL)
        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) >= 1


async def test_a_project_that_changes_is_read_anew(broker: EmbeddedBroker) -> None:
    settings = await new_project(broker, classes="cat,dog")
    async with running_gateway([settings]) as client:
        await client.until_ready()
        bird = {"task": "t1", "worker": "ann", "label": "bird"}
        assert (await client.post("/labels", bird)).status == 422
        ended = await asyncio.to_thread(sbic, settings, "project", "set", "classes=cat,dog,bird")
        assert ended.returncode == 0, ended.stderr

        async def is_taken() -> bool:
            return (await client.post("/labels", bird)).status == 200

        await until(is_taken)


def place_of(settings: Settings) -> dict[str, str]:
    return {"SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}


async def test_sigterm_answers_what_is_under_way_and_ends_streams(broker: EmbeddedBroker) -> None:
    settings = await new_project(broker)
    with sbic_gateway(place_of(settings)) as (url, process):
        async with ClientSession(timeout=ClientTimeout(30)) as http:

            async def is_ready() -> bool:
                try:
                    async with http.get(f"{url}/readyz") as answer:
                        return answer.status == 200
                except OSError:
                    return False

            await until(is_ready)
            async with http.get(f"{url}/events") as stream:
                await stream.content.readline()
                sent = [{**LABEL, "task": f"t-{uuid4().hex}"} for _ in range(200)]
                posts = [asyncio.create_task(post(http, url, label)) for label in sent]
                await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
                process.send_signal(signal.SIGTERM)
                statuses = await asyncio.gather(*posts)
                async for _ in stream.content:
                    pass  # until it ends
        assert await asyncio.to_thread(process.wait, 20) == 0
    values = [r.value for r in await ProjectOnBroker(settings).read(Topics(settings).labels.name)]
    assert statuses.count(200) == len(values)


async def post(http: ClientSession, url: str, label: dict[str, object]) -> int:
    """The status, or 0 where the gateway had closed the connection before it read the request."""
    try:
        async with http.post(f"{url}/labels", json=label) as answer:
            return answer.status
    except (OSError, ClientError):
        return 0


async def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    with sbic_gateway({}, "--port", str(port)) as (_, process):
        _, said = await asyncio.to_thread(process.communicate, None, 30)
    taken.close()
    assert process.returncode == 1
    last = said.decode().splitlines()[-1]
    assert last.endswith(f"port {port} is taken; choose another with --port")


def test_the_log_can_be_json() -> None:
    nowhere = {"SBIC_BROKER": "kafka://127.0.0.1:1", "SBIC_LOG_FORMAT": "json"}
    with sbic_gateway(nowhere) as (url, process):
        assert process.stderr is not None
        line = loads(process.stderr.readline())
    assert (line["level"], line["logger"]) == ("info", "sbic")
    assert line["message"] == f"listening on {url}"
