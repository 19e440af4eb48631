"""Recovery ends at the first attempt, however long it takes, and restores nothing twice."""

import asyncio
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaProducer

from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.agents.recount import agree_with_a_recount
from tests.agents.test_shutdown import KafkaGroup, stopped
from tests.instances import RunningInstance, instance

SESSION = 6.0  # seconds: the shortest that Kafka allows; an instance has 10
LONG = 3 * SESSION
SHORT = {"SBIC_SESSION_SECONDS": str(SESSION)}

# each record holds up the loop for a while, as records with many labels do
SLOW = """
from time import monotonic
from sbic.runtime.agents import TaskAgent
from sbic.runtime.agents import WorkerAgent

def slowly(restore):
    def restore_slowly(self, partition, records):
        begun = monotonic()
        restore(self, partition, records)
        for record in records:
            print(f"restored {{record.topic}} {{partition}} {{record.offset}}", flush=True)
        while monotonic() < begun + {seconds} * len(records):
            pass
    return restore_slowly

WorkerAgent.restore = slowly(WorkerAgent.restore)
TaskAgent.restore = slowly(TaskAgent.restore)
"""

SPIN = "while True: pass"


@contextmanager
def busy_loop() -> Iterator[None]:
    """A program that takes all the time it can get."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as spinning:
        try:
            yield
        finally:
            spinning.kill()


async def project_with_labels(broker: EmbeddedBroker, labels: int, seed: int) -> ProjectOnBroker:
    """A project whose labels are counted, and that has no instance any more."""
    here = await project(broker)
    triples = crowd(labels=labels, tasks=100, workers=50, seed=seed)
    with instance(broker.url, here.settings.prefix) as running:
        await here.until_dealt_with(triples, await here.send(triples))
        assert await asyncio.to_thread(running.terminate) == 0
    return here


async def changelogs(here: ProjectOnBroker) -> Counter[int]:
    """How many records there are to restore, by partition."""
    topics = here.topics.answers.name, here.topics.evidence.name
    return Counter([record.partition for topic in topics for record in await here.read(topic)])


def recovered(running: RunningInstance) -> tuple[float, float]:
    """Records restored by the last recovery, and those that it had to restore."""
    metrics = running.metrics()
    return (
        metrics['sbic_recovery_records{state="restored"}'],
        metrics['sbic_recovery_records{state="total"}'],
    )


@pytest.mark.parametrize(
    "neighbours",
    [0, pytest.param(2, marks=pytest.mark.long)],
    ids=["alone", "beside two busy loops"],
)
async def test_three_times_the_session_timeout_is_not_too_long(
    broker: EmbeddedBroker, neighbours: int
) -> None:
    here = await project_with_labels(broker, labels=1_000, seed=41)
    records = (await changelogs(here)).total()
    slow = SLOW.format(seconds=LONG / records)
    said, saw_progress = set(), False
    with ExitStack() as stack:
        for _ in range(neighbours):
            stack.enter_context(busy_loop())
        running = stack.enter_context(instance(broker.url, here.settings.prefix, slow, **SHORT))

        async def is_ready() -> bool:
            nonlocal saw_progress
            status, text = await asyncio.to_thread(running.get, "/readyz")
            assert running.process.poll() is None, running.log()
            if "recovering" in text:
                said.add(text)
                restored, total = await asyncio.to_thread(recovered, running)
                saw_progress = saw_progress or 0 < restored < total == records
            return status == 200

        await until(is_ready, deadline=300)
        assert await asyncio.to_thread(recovered, running) == (records, records)
        assert running.metrics()["sbic_recovery_seconds"] > LONG
        log = running.log()
    assert "removed from the group" not in log
    assert log.count("ready after") == 1
    assert saw_progress, "the metric did not show any progress"
    how_far = rf"not ready: recovering: \d+ % of {records:,} records, about \d+ s to go"
    assert any(re.fullmatch(how_far, text.strip()) for text in said), said
    assert re.search(how_far, log), log


async def test_partitions_that_an_instance_keeps_are_not_restored_again(
    broker: EmbeddedBroker,
) -> None:
    here = await project_with_labels(broker, labels=1_000, seed=42)
    prefix = here.settings.prefix
    records = await changelogs(here)
    with instance(broker.url, prefix) as first:
        first.wait_ready()
        assert recovered(first) == (records.total(), records.total())
        with instance(broker.url, prefix) as second:
            await asyncio.to_thread(second.wait_ready)
            gone = partitions_of(second)
            assert len(gone) == 4
            await until_it_has(first, set(records) - gone)
            assert recovered(first) == (0, 0)
            # the first has written of each that it owns it
            there = sum(records[partition] + 1 for partition in gone)
            assert recovered(second) == (there, there)
            assert await asyncio.to_thread(second.terminate) == 0
        await until_it_has(first, set(records))
        there += len(gone)  # and so has the second
        assert recovered(first) == (there, there)


async def test_a_rebalance_during_a_recovery_keeps_what_is_restored(broker: EmbeddedBroker) -> None:
    here = await project_with_labels(broker, labels=1_000, seed=46)
    prefix = here.settings.prefix
    records = await changelogs(here)
    slow = SLOW.format(seconds=LONG / records.total())
    with instance(broker.url, prefix, slow, **SHORT) as first:

        async def is_halfway() -> bool:
            return 2 * len(restored_by(first)) > records.total()

        await until(is_halfway)
        with instance(broker.url, prefix) as second:
            await asyncio.to_thread(second.wait_ready)
            await until_it_has(first, set(records) - partitions_of(second))
            kept = partitions_of(first)
            there = sum(records[partition] for partition in kept)
            assert recovered(first)[0] < there, "it had nothing to keep"
            restored = [place for place in restored_by(first) if place.partition in kept]
    assert len(restored) == len(set(restored)) == there


class RestoredFrom(NamedTuple):
    """Where a record was restored from."""

    topic: str
    partition: int
    offset: int


def restored_by(running: RunningInstance) -> list[RestoredFrom]:
    """What a slow instance has restored, in order."""
    found = re.findall(r"^restored (\S+) (\d+) (\d+)$", running.log(), re.MULTILINE)
    return [RestoredFrom(topic, int(partition), int(offset)) for topic, partition, offset in found]


def partitions_of(running: RunningInstance) -> set[int]:
    """The partitions with which it said last that it was ready."""
    *_, last = re.findall(r"ready after .*: partitions \[(.*?)\]", running.log())
    return {int(partition) for partition in last.split(", ")}


async def until_it_has(running: RunningInstance, partitions: set[int]) -> None:
    """Wait until it is ready with these partitions."""

    async def has_them() -> bool:
        is_ready = (await asyncio.to_thread(running.get, "/readyz"))[0] == 200
        return is_ready and partitions_of(running) == partitions

    await until(has_them)


async def test_one_that_was_put_out_says_why_and_keeps_what_it_has(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=2_000, tasks=100, workers=50, seed=43)
    here = await project(broker)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await here.until_dealt_with(triples[:1_000], await here.send(triples[:1_000]))
        for topic in (here.topics.labels.name, here.topics.votes.name):
            await until_committed(here, topic)  # nothing is under way
        with stopped(running):
            await until_nobody_is_a_member(here)
        await until_said(running, "removed from the group: Kafka received no heartbeat for")
        await until_ready_again(running)
        assert recovered(running) == (0, 0)
        await here.until_dealt_with(triples[1_000:], await here.send(triples[1_000:]))
    await agree_with_a_recount(here, triples)


async def test_one_that_was_put_out_learns_what_its_successor_did(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=3_000, tasks=100, workers=50, seed=44)
    here = await project(broker)
    prefix = here.settings.prefix
    with instance(broker.url, prefix) as first:
        first.wait_ready()
        await here.until_dealt_with(triples[:1_000], await here.send(triples[:1_000]))
        before = await changelogs(here)
        with stopped(first), instance(broker.url, prefix) as second:
            await asyncio.to_thread(second.wait_ready)
            await until_it_has(second, set(before))
            await here.until_dealt_with(triples[1_000:2_000], await here.send(triples[1_000:2_000]))
            assert await asyncio.to_thread(second.terminate) == 0
        after = await changelogs(here)
        await until_said(first, "removed from the group")
        await until_ready_again(first)
        restored, total = recovered(first)
        # where it wrote itself, before it knew that it had been put out, it reads all again
        assert (after - before).total() <= restored == total
        await here.until_dealt_with(triples[2_000:], await here.send(triples[2_000:]))
    await agree_with_a_recount(here, triples)


async def until_committed(here: ProjectOnBroker, topic: str) -> None:
    ends = {record.partition: record.offset + 1 for record in await here.read(topic)}

    async def is_committed() -> bool:
        return await here.committed(topic) == ends

    await until(is_committed)


async def until_nobody_is_a_member(here: ProjectOnBroker) -> None:
    group = KafkaGroup(here)

    async def is_empty() -> bool:
        return await group.members() == []

    await until(is_empty)


async def until_said(running: RunningInstance, words: str) -> None:
    async def is_said() -> bool:
        return words in running.log()

    await until(is_said)


async def until_ready_again(running: RunningInstance) -> None:
    async def is_ready_again() -> bool:
        return running.log().count("ready after") == 2

    await until(is_ready_again)


async def test_a_changelog_that_ends_with_a_transaction_is_read_to_its_end(
    broker: EmbeddedBroker,
) -> None:
    here = await project_with_labels(broker, labels=100, seed=45)
    async with AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers, transactional_id=here.settings.prefix
    ) as producer:
        for partition in range(here.settings.partitions):
            async with producer.transaction():
                await producer.send(here.topics.answers.name, b"none of ours", partition=partition)
    records = (await changelogs(here)).total()
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        restored, total = recovered(running)
        assert restored == total > records  # the markers count as well
