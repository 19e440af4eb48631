"""No broker, wrong topics, a broker that is lost: clear errors, and no label is lost."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from sbic.kafka.admin import check_topics
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.runtime.faust.consumer import Connections
from sbic.runtime.readiness import BrokerWatch
from sbic.wire.labels import encode_label
from tests import brokers
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, Triple, project, until
from tests.agents.recount import agree_with_a_recount
from tests.instances import RunningInstance, instance


def refusal(broker: str, prefix: str, **env: str) -> tuple[int, str]:
    """Exit status and output of an instance that does not start."""
    with instance(broker, prefix, **env) as refused:
        return refused.process.wait(30), refused.log()


def test_without_a_broker_one_line_says_what_to_do() -> None:
    port = free_port()
    nobody = f"127.0.0.1:{port}"
    assert refusal(f"kafka://{nobody}", "sbic") == (
        1,
        f"sbic: no Kafka answers at {nobody}; set SBIC_BROKER to the address of one, "
        f"or start one with: sbic broker --port {port}\n",
    )


async def test_topics_with_other_partitions_are_named(broker: EmbeddedBroker) -> None:
    here = await project(broker, partitions=3)
    status, said = refusal(broker.url, here.settings.prefix, SBIC_PARTITIONS="8")
    assert status == 1
    first, *_, last = said.splitlines()
    assert first == f"{here.topics.labels.name} has 3 partitions and needs 8"
    assert last.startswith(
        "sbic: nothing was changed; use the settings that the topics were created with"
    )


async def test_a_web_port_that_is_taken_is_named(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        status, said = refusal(broker.url, here.settings.prefix, SBIC_WEB_PORT=port)
    assert status == 1
    last = said.splitlines()[-1]
    assert last == f"sbic: port {port} is taken; choose another with --web-port, or 0 for any"


async def test_on_an_empty_broker_the_topics_are_created(broker: EmbeddedBroker) -> None:
    settings = Settings(broker=broker.url, prefix="from-nothing")
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        assert await check_topics(settings) == []
        here = ProjectOnBroker(settings)
        await here.send([("t1", "ann", 1)])
        assert (await here.until_counted(1))["t1"]["labels"] == 1
        assert running.terminate() == 0


@contextmanager
def own_broker(folder: Path) -> Iterator[EmbeddedBroker]:
    """A broker that can be stopped and started again, on the same port and data."""
    with EmbeddedBroker(port=free_port(), data_dir=folder) as broker:
        yield broker


async def stop_in_good_order(broker: EmbeddedBroker) -> None:
    await asyncio.to_thread(broker.stop)


async def kill(broker: EmbeddedBroker) -> None:
    await asyncio.to_thread(brokers.kill, broker)


@asynccontextmanager
async def labels_flowing(here: ProjectOnBroker, triples: Sequence[Triple]) -> AsyncIterator[None]:
    """Send labels steadily, whatever the broker does; at the end all are acknowledged."""
    producer = AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers,
        enable_idempotence=True,
        request_timeout_ms=120_000,
    )

    async def send() -> None:
        acknowledgements = []
        for task, worker, label in triples:
            value = encode_label(task, worker, label)
            acknowledgements.append(
                await producer.send(here.topics.labels.name, value, key=worker.encode())
            )
            await asyncio.sleep(0.002)
        await asyncio.gather(*acknowledgements)

    async with producer, asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        yield


LOST = "does not answer; trying again until it does"
FOUND = "Kafka answers again"


async def until_it_says(running: RunningInstance, text: str, times: int) -> None:
    async def said() -> bool:
        assert running.process.poll() is None, running.log()
        return running.log().count(text) == times

    await until(said)


@pytest.mark.broker
@brokers.needs_proc
async def test_when_the_broker_comes_back_nothing_is_lost_and_nothing_counts_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", logger="aiokafka")  # it complains all the time, rightly
    triples = crowd(labels=3_000, tasks=300, workers=60, seed=7)
    with own_broker(tmp_path) as broker:
        here = await project(broker)
        with instance(broker.url, here.settings.prefix) as running:
            running.wait_ready()
            async with labels_flowing(here, triples):
                for number, lose in enumerate([stop_in_good_order, kill], start=1):
                    await here.until_counted(500 * number)
                    await lose(broker)
                    await until_it_says(running, LOST, times=number)
                    assert running.get("/readyz") == (503, "not ready: Kafka does not answer\n")
                    assert running.get("/healthz") == (200, "ok\n")
                    await asyncio.to_thread(broker.start)
                    await until_it_says(running, FOUND, times=number)
                    running.wait_ready()
            await here.until_counted(len(triples))
            await agree_with_a_recount(here, triples)
            await stop_in_good_order(broker)
            assert running.terminate() == 70  # and not never
            assert "Nothing is lost; the next start recovers" in running.log()


# An instance notices that Kafka is gone, whenever that happens.


async def not_denied() -> None:
    return None


async def test_it_says_once_why_clients_cannot_connect(caplog: pytest.LogCaptureFixture) -> None:
    async def denied() -> str:
        return "Kafka refuses the password"

    state = Connections(is_connected=False, has_partitions=True)
    watch = BrokerWatch("here:9092", lambda: state, denied)
    for _ in range(3):
        watch.look()
        await watch.explain()
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does",
        "Kafka refuses the password; trying again until that is fixed",
    ]


def test_it_is_lost_though_it_was_never_seen_connected(caplog: pytest.LogCaptureFixture) -> None:
    state = Connections(is_connected=False, has_partitions=False)
    watch = BrokerWatch("here:9092", lambda: state, not_denied)
    watch.look()
    assert not watch.is_lost
    state = Connections(is_connected=False, has_partitions=True)
    watch.look()
    watch.look()
    assert watch.is_lost
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does"
    ]
    state = Connections(is_connected=True, has_partitions=True)
    watch.look()
    assert not watch.is_lost
