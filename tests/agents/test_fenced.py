"""An instance that is stalled with records in its producer does not publish them later."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from orjson import loads

from sbic.instance.taken import labels_in
from sbic.local.broker import EmbeddedBroker
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
