"""How an instance ends: in good order when asked to, and at once when something is wrong."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from confluent_kafka.admin import AdminClient

from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.agents.recount import agree_with_a_recount
from tests.instances import RunningInstance, instance

IN_TIME = 10  # seconds: what is promised, and what supervisors commonly wait before they kill
# `sbic run`, changed.
CHANGED = """
import sys
from sbic.runtime.agents import WorkerAgent
from sbic.instance.publication import Outbox
from sbic.wire.partitions import Row
from sbic.commands.main import main
from sbic.instance.workers import WorkerStage

{change}

sys.argv = ["sbic", "run", "--web-port", "0"]
main()
"""
FAILS = """
take = WorkerStage.take

def take_or_fail(self, parts, taken):
    take(self, parts, taken)
    if any(b'"w7"' in record.value for records in parts.values() for record in records):
        raise RuntimeError("more than it can bear")

WorkerStage.take = take_or_fail
"""
SAYS_WHEN_IT_READS_A_TABLE = """
restore = WorkerAgent.restore

def say_and_restore(self, partition, records):
    print("now", flush=True)
    restore(self, partition, records)

WorkerAgent.restore = say_and_restore
"""
PUBLISHES_WITHOUT_END_BEFORE_IT_IS_READY = """
async def ready(self, partitions, generation):
    print("now", flush=True)
    while True:
        outbox = Outbox()
        outbox.add(self.publisher.redirector.dead_letters, 0, Row(None, b""))
        await self.publisher.groups.producer.publish(outbox)

WorkerAgent.ready = ready
"""


def changed(here: ProjectOnBroker, change: str) -> "subprocess.Popen[str]":
    env = {
        **os.environ,
        "SBIC_BROKER": here.settings.broker,
        "SBIC_PREFIX": here.settings.prefix,
        "PYTHONPATH": os.path.abspath("pipeline"),
    }
    return subprocess.Popen(
        [sys.executable, "-c", CHANGED.format(change=change)],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@contextmanager
def stopped(running: RunningInstance) -> Iterator[None]:
    """It does nothing for a while, and says nothing to Kafka."""
    running.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        running.process.send_signal(signal.SIGCONT)


class KafkaGroup:
    """Kafka's own account of a project's group."""

    def __init__(self, here: ProjectOnBroker) -> None:
        self.name = here.settings.prefix
        self.topic = here.topics.labels.name
        self.admin = AdminClient({"bootstrap.servers": ",".join(here.settings.bootstrap_servers)})

    async def members(self) -> list[int]:
        """How many partitions of labels each member has."""
        described = self.admin.describe_consumer_groups([self.name])[self.name]
        return sorted(
            sum(tp.topic == self.topic for tp in member.assignment.topic_partitions)
            for member in (await asyncio.wrap_future(described)).members
        )

    async def until_members(self, *expected: int) -> None:
        """Wait until they have this many partitions."""

        async def are_as_expected() -> bool:
            return await self.members() == [*expected]

        await until(are_as_expected)


async def all_is_committed(here: ProjectOnBroker, topic: str) -> None:
    """What the group says it has done is all there is."""
    ends = {record.partition: record.offset + 1 for record in await here.read(topic)}
    assert await here.committed(topic) == ends


async def until_not_ready(running: RunningInstance) -> None:
    async def is_not_ready() -> bool:
        return (await asyncio.to_thread(running.get, "/readyz"))[0] == 503

    await until(is_not_ready)


@asynccontextmanager
async def two_members(
    here: ProjectOnBroker, group: KafkaGroup, **env: str
) -> AsyncIterator[tuple[RunningInstance, RunningInstance]]:
    """Two instances that are ready, each with half of the partitions."""
    with (
        instance(here.settings.broker, here.settings.prefix, **env) as one,
        instance(here.settings.broker, here.settings.prefix, **env) as other,
    ):
        one.wait_ready()
        other.wait_ready()
        await group.until_members(4, 4)
        yield one, other


async def ended(running: RunningInstance) -> None:
    """Asked to end, it does so in good order, and has left the group by then."""
    assert await asyncio.to_thread(running.terminate, IN_TIME) == 0, running.log()
    assert "Traceback" not in running.log()


async def test_sigterm_under_load_loses_nothing_and_leaves_the_group_at_once(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=12_000, tasks=400, workers=100, seed=31)
    here = await project(broker)
    group = KafkaGroup(here)
    async with two_members(here, group) as (first, second):
        sending = asyncio.create_task(here.send(triples))
        await here.until_counted(1_000)
        await ended(first)
        assert len(await group.members()) == 1
        await group.until_members(8)
        await sending
        await here.until_counted(len(triples))
        await ended(second)
    assert await group.members() == []
    # votes that it did not read back any more are counted by the next one
    await all_is_committed(here, here.topics.labels.name)
    await agree_with_a_recount(here, triples)


async def test_sigterm_during_a_rebalance_does_not_wait_for_its_end(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=2_000, tasks=100, workers=50, seed=33)
    here = await project(broker)
    group = KafkaGroup(here)
    session = {"SBIC_SESSION_SECONDS": "60"}  # the silent one stays until the new one has joined
    async with two_members(here, group, **session) as (member, silent):
        await here.until_dealt_with(triples, await here.send(triples))
        with stopped(silent), instance(broker.url, here.settings.prefix) as new:
            await group.until_members(0, 4, 4)
            await until_not_ready(member)
            await ended(new)  # while Kafka waits for the silent one to join again
            await ended(member)
            assert len(await group.members()) <= 1
        await group.until_members(8)
        await ended(silent)
    assert await group.members() == []
    await all_is_committed(here, here.topics.labels.name)
    await agree_with_a_recount(here, triples)


async def test_sigterm_while_tables_are_recovered_ends_in_good_order(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=3_000, tasks=100, workers=50, seed=34)
    here = await project(broker)
    group = KafkaGroup(here)
    with instance(broker.url, here.settings.prefix) as running:
        await here.until_dealt_with(triples, await here.send(triples))
        await ended(running)
    for change in SAYS_WHEN_IT_READS_A_TABLE, PUBLISHES_WITHOUT_END_BEFORE_IT_IS_READY:
        with changed(here, change) as recovering:
            assert recovering.stdout is not None
            while await asyncio.to_thread(recovering.stdout.readline) != "now\n":
                assert recovering.poll() is None
            recovering.terminate()
            said, _ = await asyncio.to_thread(recovering.communicate, timeout=IN_TIME)
        assert (recovering.returncode, "Traceback" in said) == (0, False), said
        assert await group.members() == []
    await all_is_committed(here, here.topics.labels.name)
    await agree_with_a_recount(here, triples)


async def test_sigterm_right_after_the_start_ends_at_once(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    group = KafkaGroup(here)
    with instance(broker.url, here.settings.prefix) as starting:

        async def listens() -> bool:
            return (await asyncio.to_thread(starting.get, "/healthz"))[0] == 200

        await until(listens)
        await ended(starting)
    assert await group.members() == []


def test_sigterm_while_it_looks_for_kafka_ends_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        instance(f"kafka://127.0.0.1:{mute.getsockname()[1]}", "sbic") as starting,
        mute.accept()[0],
    ):
        assert starting.terminate(IN_TIME) == 0
        assert starting.log() == ""


async def test_an_unexpected_error_ends_with_70_and_the_next_start_recovers(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=1_000, tasks=50, workers=30, seed=32)
    here = await project(broker)
    await here.send(triples)
    with changed(here, FAILS) as failing:
        said, _ = await asyncio.to_thread(failing.communicate, timeout=60)
    assert failing.returncode == 70, said
    assert "more than it can bear" in said
    with instance(broker.url, here.settings.prefix):
        await here.until_counted(len(triples))
    await agree_with_a_recount(here, triples)


# A static member that restarts within its session keeps its partitions and loses nothing.


SESSION = {"SBIC_SESSION_SECONDS": "60"}
LABELS = 300  # in each of three parts


def partitions(running: RunningInstance) -> set[str]:
    """The partitions of labels that an instance reads."""
    return {
        name
        for name in running.metrics()
        if name.startswith("sbic_lag_records{") and ".labels" in name
    }


async def test_a_restart_moves_nothing_and_loses_nothing(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    triples = crowd(labels=3 * LABELS, tasks=100, workers=50, seed=11)
    with (
        instance(broker.url, prefix, SBIC_INSTANCE_ID="b", **SESSION) as other,
        ExitStack() as runs,
    ):

        def start() -> RunningInstance:
            made = instance(broker.url, prefix, SBIC_INSTANCE_ID="a", **SESSION)
            return runs.enter_context(made)

        other.wait_ready()
        running = start()
        running.wait_ready()
        other.wait_ready()
        sent = await here.send(triples[:LABELS])
        await here.until_dealt_with(triples[:LABELS], sent)
        own, rebalances = partitions(running), other.metrics()["sbic_rebalances_total"]
        assert own
        assert own.isdisjoint(partitions(other))

        for part, end in ((1, running.terminate), (2, None)):
            if end is None:
                running.kill()
            else:
                assert await asyncio.to_thread(end) == 0
            some = triples[part * LABELS : (part + 1) * LABELS]
            places = await here.send(some)  # while it is away
            running = start()
            await asyncio.to_thread(running.wait_ready)
            await here.until_dealt_with(some, places)
            assert partitions(running) == own
            assert other.metrics()["sbic_rebalances_total"] == rebalances
            assert "removed from the group" not in other.log() + running.log()

        await agree_with_a_recount(here, triples)
