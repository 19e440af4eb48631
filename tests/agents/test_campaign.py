"""Generated poison on every topic of a real broker: nothing stops, and genuine labels count."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from aiokafka import ConsumerRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from sbic.local.broker import EmbeddedBroker
from tests.agents.kafka import ProjectOnBroker, project
from tests.gateway.client import running_gateway
from tests.instances import RunningInstance, instance
from tests.projects import sbic
from tests.stages.test_campaign import JSON, STRUCTURES, mutations

PARTITIONS = 2
WORKERS = ["ann", "bob", "eve", "fay"]
TASKS = 10  # of each part of the labels
VALUES = 60  # of each kind of poison
LARGEST = 1_000_000  # bytes: Kafka refuses longer values

KEYS = [b"forged", b"", b"\0", b"\xff\xfe", b"k" * 300, b"\x1b[2J\xe2\x80\xae", b"forged"]
HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("sbic.seal", None), ("sbic.origin", None), ("traceparent", None)],
    [("sbic.seal", b"\xff" * 16), ("sbic.origin", b"/" * 999), ("traceparent", b"\xff")],
    [("__connect.errors.offset", b"9" * 5000), ("__connect.errors.topic", b"\xff"), ("", b"")],
]


class Poison(NamedTuple):
    """A record that somebody writes."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes = b"forged"
    headers: Sequence[tuple[str, bytes | None]] = ()


def drawn(strategy: st.SearchStrategy[bytes | None]) -> list[bytes | None]:
    """Values of a strategy, the same in every run."""
    found: list[bytes | None] = []

    @settings(max_examples=VALUES, database=None, derandomize=True)
    @given(strategy)
    def collect(value: bytes | None) -> None:
        found.append(value)

    collect()
    return found


def topics_of(here: ProjectOnBroker) -> list[tuple[str, int]]:
    return [(topic.name, topic.partitions) for topic in here.topics]


async def genuine(here: ProjectOnBroker) -> list[ConsumerRecord]:
    """Records of the topics that instances write, the last two of each."""
    topics = here.topics
    names = (topics.answers, topics.votes, topics.evidence, topics.estimates, topics.assignments)
    found = [await here.read(topic.name) for topic in (*names, topics.posteriors, topics.workers)]
    return [record for records in found for record in records[-2:]]


def cannot_be_ours(
    here: ProjectOnBroker, records: Iterable[ConsumerRecord]
) -> dict[str, list[Poison]]:
    """Any bytes, any JSON, and parts of genuine records, by topic."""
    parts = st.sampled_from([record.value for record in records]).flatmap(
        lambda value: st.integers(1, len(value) - 1).map(lambda size: value[:size])
    )
    values = drawn(st.none() | st.binary(max_size=60)) + drawn(parts)
    values += drawn(JSON.map(lambda value: json.dumps(value).encode()))
    values += drawn(STRUCTURES)
    return {
        name: [
            Poison(
                name,
                number % partitions,
                value,
                KEYS[number % len(KEYS)],
                HEADERS[number % len(HEADERS)],
            )
            for number, value in enumerate(values)
        ]
        for name, partitions in topics_of(here)
    }


def could_be_ours(records: Iterable[ConsumerRecord]) -> list[Poison]:
    """Genuine records with something changed, where they were."""
    return [
        Poison(record.topic, record.partition, value)
        for record in records
        for value in drawn(mutations(record.value))
    ]


async def write(here: ProjectOnBroker, poison: Iterable[Poison]) -> None:
    async with here.producer() as producer:
        sent = [
            await producer.send(
                each.topic, each.value, each.key, each.partition, headers=each.headers
            )
            for each in poison
            if len(each.value or b"") < LARGEST
        ]
        await asyncio.gather(*sent)


async def send(here: ProjectOnBroker, part: str) -> None:
    tasks = [f"{part}{number}" for number in range(TASKS)]
    await here.send([(task, worker, 1) for task in tasks for worker in WORKERS])


async def until_all_count(here: ProjectOnBroker, *parts: str) -> None:
    """Wait until every label of these parts counts, once."""
    tasks = [f"{part}{number}" for part in parts for number in range(TASKS)]

    def all_count(records: list[ConsumerRecord]) -> bool:
        labels = {}
        for record in records:
            if record.key not in KEYS and record.value is not None:
                labels[record.key.decode()] = json.loads(record.value)["labels"]
        return all(labels.get(task) == len(WORKERS) for task in tasks)

    await here.until_read(here.topics.posteriors.name, all_count)


def is_well(running: RunningInstance) -> bool:
    return running.process.poll() is None and running.get("/readyz")[0] == 200


READING = [
    ("status",),
    ("status", "--json"),
    *(("export", what) for what in ("labels", "posteriors", "workers")),
    *(("export", what, "--format", "jsonl") for what in ("posteriors", "workers")),
    ("export", "workers", "--excel"),
    ("dead-letters", "show", "--limit", "100000"),
    ("dead-letters", "show", "--limit", "100000", "--json"),
    ("project", "show"),
]
PAGES = [
    *("/status", "/history", "/confidence", "/rules", "/tasks/before0", "/workers/ann"),
    *(f"/tasks?order={order}&limit=100" for order in ("disputed", "recent", "confidence")),
    *(f"/workers?order={order}&limit=100" for order in ("best", "worst", "labels")),
]


async def all_can_be_read(here: ProjectOnBroker) -> None:
    """Every command that reads says what it finds, and so does a gateway."""
    for arguments in READING:
        ended = await asyncio.to_thread(sbic, here.settings, *arguments)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    with TemporaryDirectory() as folder:
        target = f"sqlite:{folder}/crowd.db"
        ended = await asyncio.to_thread(sbic, here.settings, "sink", target, "--once")
        assert ended.returncode == 0, ended.stderr
    async with running_gateway([here.settings]) as gateway:
        await gateway.until_ready()
        for page in PAGES:
            assert (await gateway.get(page)).status == 200, page


async def ask_for_tasks(here: ProjectOnBroker) -> None:
    """Let there be assignments, too."""
    async with here.producer() as producer:
        for worker in WORKERS:
            value = json.dumps({"worker": f"new {worker}"}).encode()
            await producer.send_and_wait(here.topics.requests.name, value, key=b"new")
    await here.until_read(here.topics.assignments.name, lambda found: len(found) >= len(WORKERS))


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_whatever_anybody_writes_nothing_stops_and_a_recount_mends_the_rest(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=PARTITIONS)
    env = {"SBIC_PARTITIONS": str(PARTITIONS)}
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        await send(here, "before")
        await until_all_count(here, "before")
        await ask_for_tasks(here)
        records = await genuine(here)
        running.kill()
    parts = ["before"]
    for number, (topic, poison) in enumerate(cannot_be_ours(here, records).items()):
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()  # after the poison of the topic before it
            await write(here, poison)
            await send(here, f"after {number} ")
            parts.append(f"after {number} ")
            await until_all_count(here, *parts)
            assert is_well(running), f"{topic}: {running.log()}"
            running.kill()
    await all_can_be_read(here)
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        await write(here, could_be_ours(records))
        await send(here, "last")
        assert is_well(running), running.log()
        await all_can_be_read(here)
        running.kill()
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        ended = await asyncio.to_thread(sbic, here.settings, "project", "recount")
        assert ended.returncode == 0, ended.stderr
        running.wait_ready()
        await until_all_count(here, *parts, "last")
