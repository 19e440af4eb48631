"""An instance that is stalled with records in its producer does not publish them later."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from orjson import loads

from sbic.instance.taken import labels_in
from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.followers import unread_votes
from sbic.wire.changelogs import parse_answers
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.agents.recount import agree_with_a_recount
from tests.agents.test_shutdown import KafkaGroup
from tests.agents.workforce import register, workforce
from tests.instances import RunningInstance, instance

# Stops itself, once, when the first record for a topic has reached the client: nothing is written.
STOPS_ITSELF = """
import os, signal
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest

send = AIOKafkaClient.send
stops = [signal.SIGSTOP]

async def stop_and_send(self, node_id, request, **options):
    if isinstance(request, ProduceRequest):
        topics = [topic for topic, _ in request._topics]
        while stops and any(topic.endswith(".{topic}") for topic in topics):
            os.kill(os.getpid(), stops.pop())
    return await send(self, node_id, request, **options)

AIOKafkaClient.send = stop_and_send
"""


def is_stopped(running: RunningInstance) -> bool:
    """Whether the kernel has stopped it."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return "State:\tT" in status


async def until_stopped(running: RunningInstance) -> None:
    """Wait until it has stopped itself."""

    async def has_stopped() -> bool:
        return is_stopped(running)

    await until(has_stopped)


async def ids(here: ProjectOnBroker) -> Counter[str]:
    """How many assignments have each id."""
    records = await here.read(here.topics.assignments.name)
    assignments = [loads(record.value) for record in records]
    return Counter(given["id"] for given in assignments if "ended" not in given)


async def test_each_request_is_answered_once_though_its_first_owner_stalled_while_answering(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    group = KafkaGroup(here)
    workers = [f"w{number}" for number in range(40)]
    with (
        instance(
            broker.url, here.settings.prefix, change=STOPS_ITSELF.format(topic="assignments")
        ) as stalled,
        instance(broker.url, here.settings.prefix) as successor,
    ):
        stalled.wait_ready()
        successor.wait_ready()
        await register(here, [f"t{number}" for number in range(200)])
        async with workforce(here) as force:
            for worker in workers:
                await force.ask(worker)
            await until_stopped(stalled)
            for worker in workers:
                await force.hear(worker)  # the others have taken its place, and answered
            stalled.process.send_signal(signal.SIGCONT)
            await group.until_members(4, 4)
            for worker in workers:
                await force.ask(worker)
                await force.hear(worker)
        await asyncio.to_thread(stalled.wait_ready)
        assert "removed from the group" in stalled.log()
        for running in stalled, successor:
            assert await asyncio.to_thread(running.terminate) == 0
    answered = await ids(here)
    assert len(answered) == 2 * len(workers)
    assert set(answered.values()) == {1}


async def times_taken(here: ProjectOnBroker) -> Counter[tuple[int, int]]:
    """How many records of answers have each label, by its place."""
    return Counter(
        (record.partition, label.offset)
        for record in await here.read(here.topics.answers.name)
        for label in labels_in(parse_answers(record.value), classes=2)
    )


@pytest.mark.parametrize("topic", ["answers", "posteriors"])
async def test_each_label_is_taken_once_and_no_posterior_is_late_though_an_owner_was_stalled(
    broker: EmbeddedBroker, topic: str
) -> None:
    here = await project(broker)
    triples = crowd(labels=2000, tasks=50, workers=100, seed=8)
    session = {"SBIC_SESSION_SECONDS": "6"}
    with (
        instance(
            broker.url, here.settings.prefix, STOPS_ITSELF.format(topic=topic), **session
        ) as stalled,
        instance(broker.url, here.settings.prefix, **session) as successor,
    ):
        stalled.wait_ready()
        successor.wait_ready()
        await KafkaGroup(here).until_members(4, 4)
        await here.send(triples[:1000])
        await until_stopped(stalled)
        await here.send(triples[1000:])
        await here.until_counted(len(triples))
        stalled.process.send_signal(signal.SIGCONT)
        await KafkaGroup(here).until_members(4, 4)
        await asyncio.to_thread(stalled.wait_ready)
        assert "removed from the group" in stalled.log()
        for running in stalled, successor:
            assert await asyncio.to_thread(running.terminate) == 0
    assert set((await times_taken(here)).values()) == {1}
    await agree_with_a_recount(here, triples)


# A project without its answers topic is refused: its labels would not count.


BEFORE = b'{"taken":[[1,9]],"votes":{"0":[["t1","w1",1,0.5,1,9,0]]}}'


async def commit(here: ProjectOnBroker, offsets: dict[int, int]) -> None:
    """Let the group have committed labels up to these offsets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=here.settings.bootstrap_servers,
        group_id=here.settings.prefix,
        enable_auto_commit=False,
    )
    async with consumer:
        topic = here.topics.labels.name
        places = {TopicPartition(topic, partition): end for partition, end in offsets.items()}
        consumer.assign(list(places))
        await consumer.commit(places)


def refusal(running: RunningInstance) -> str:
    """What an instance says that ends with status 1."""
    assert running.process.wait(60) == 1
    [said] = [line for line in running.log().splitlines() if line.startswith("sbic: ")]
    assert "Traceback" not in running.log()
    return said


async def test_a_project_of_the_version_before_is_refused_with_the_way_out(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    places = await here.send(crowd(labels=200, tasks=20, workers=20, seed=51))
    async with here.producer() as producer:
        await producer.send_and_wait(here.topics.answers.name, BEFORE, partition=places[0][0])
    await commit(here, {places[0][0]: 10})
    with instance(broker.url, here.settings.prefix) as running:
        said = refusal(running)
    assert f"labels of {here.topics.labels.name} up to offset 9" in said
    assert "another version of sbic" in said
    assert "No label is lost" in said


async def test_labels_that_no_instance_took_do_not_matter(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    triples = crowd(labels=200, tasks=20, workers=20, seed=52)
    await here.send(triples)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await here.until_counted(len(triples))


# Which votes an instance counts before it takes labels.


async def test_the_votes_of_own_partitions_after_the_committed_ones_are_unread(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    topic = here.topics.votes.name
    async with here.producer() as producer:
        for partition in range(3):
            for number in range(partition * 2):
                await producer.send_and_wait(topic, b"%d" % number, partition=partition)
    committing = AIOKafkaConsumer(
        **client_options(here.settings), group_id=here.settings.prefix, enable_auto_commit=False
    )
    async with committing:
        committing.assign([TopicPartition(topic, 2)])
        await committing.commit({TopicPartition(topic, 2): 3})

    async def unread(*partitions: int) -> list[tuple[int, bytes | None]]:
        found = unread_votes(here.settings, set(partitions))
        return [(partition, one.value) async for partition, some in found for one in some]

    assert await unread(0, 2) == [(2, b"3")]
    assert await unread(1) == [(1, b"0"), (1, b"1")]
