"""An instance that is stuck says where and why, and ends; none that only waits does."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.brokers import needs_proc, paused
from tests.instances import RunningInstance, instance

TRIPLES = crowd(labels=600, tasks=50, workers=20, seed=24)
SECONDS = "4"
ENV = {"SBIC_PARTITIONS": "2", "SBIC_STUCK_SECONDS": SECONDS}

WHEN_TOLD = """
import asyncio, os
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
async def never(*args, **options):
    await asyncio.Event().wait()
def hanging(real):
    async def ask(*args, **options):
        if os.path.exists({told!r}):
            await never()
        return await real(*args, **options)
    return ask
"""
HANGS = {
    "fetch": WHEN_TOLD + "Fetcher._proc_fetch_request = hanging(Fetcher._proc_fetch_request)",
    "coordinator": WHEN_TOLD
    + "import sbic.runtime.faust.membership as m\n"
    + "m.Membership.send = hanging(m.Membership.send)",
}


async def ended(running: RunningInstance) -> str:
    """The log of an instance, once it has ended."""

    async def has_ended() -> bool:
        return running.process.poll() is not None

    await until(has_ended)
    return running.log()


@pytest.mark.parametrize(
    ("hangs", "why"),
    [
        ("fetch", "but none is fetched"),
        ("coordinator", "the coordinator of the group has not answered for"),
    ],
)
async def test_one_that_hangs_says_on_which_partition_and_why_and_ends_and_nothing_is_lost(
    broker: EmbeddedBroker, tmp_path: Path, hangs: str, why: str
) -> None:
    here = await project(broker, partitions=2)
    told = tmp_path / "told"
    change = HANGS[hangs].format(told=str(told))
    seen: list[str] = []
    with instance(broker.url, here.settings.prefix, change, **ENV) as running:
        running.wait_ready()
        await here.send(TRIPLES[:300])
        await here.until_counted(300)
        told.touch()
        more = iter(TRIPLES[300:])  # results are held back once heartbeats are overdue, not before

        async def is_not_ready() -> bool:
            await here.send([next(more)])
            seen.append(running.get("/readyz")[1])
            return "no progress on" in seen[-1] or running.process.poll() is not None

        await until(is_not_ready)
        log = await ended(running)
        assert running.process.returncode == 70
        assert f"no progress on {here.topics.labels.name}, partition " in log
        assert why in log
        assert "Nothing is lost; the next start recovers" in log
        assert "Traceback" not in log
    assert "no progress on" in seen[-1]
    with instance(broker.url, here.settings.prefix, **ENV) as running:
        running.wait_ready()
        await here.until_counted(len(TRIPLES) - len(list(more)))
        assert running.metrics()["sbic_stuck_seconds"] < float(SECONDS)
        assert running.terminate() == 0


async def delete_before(here: ProjectOnBroker, offset: int) -> None:
    """Delete the first labels of each partition, as retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=here.settings.bootstrap_servers)
    await admin.start()
    try:
        places = [TopicPartition(here.topics.labels.name, p) for p in range(2)]
        await admin.delete_records(dict.fromkeys(places, RecordsToDelete(before_offset=offset)))
    finally:
        await admin.close()


async def test_retention_that_removed_the_committed_offset_leaves_no_instance_stuck(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    prefix = here.settings.prefix
    with instance(broker.url, prefix, **ENV) as running:
        running.wait_ready()
        await here.send(TRIPLES[:300])
        await here.until_counted(300)
        assert running.terminate() == 0
    places = await here.send(TRIPLES[300:])
    cut = max(offset for _, offset in places[:100])
    await delete_before(here, cut)
    left = sum(1 for _, offset in places if offset >= cut)
    with instance(broker.url, prefix, **ENV) as running:
        running.wait_ready()
        await here.until_counted(300 + left)
        assert "have expired" in running.log()
        await here.send([("more", "ann", 1)])
        await here.until_counted(301 + left)
        assert running.terminate() == 0


@needs_proc
async def test_none_ends_that_waits_for_kafka_or_has_nothing_to_do_or_is_slow(
    tmp_path: Path,
) -> None:
    slow = """
import time, sbic.instance.instance as it
real = it.Instance.take
def take(self, piece):
    time.sleep(0.1)
    return real(self, piece)
it.Instance.take = take
"""
    env = ENV | {"SBIC_STUCK_SECONDS": "8", "SBIC_PARTITIONS": "1"}
    with EmbeddedBroker(port=free_port(), data_dir=tmp_path) as broker:
        here = await project(broker, partitions=1)
        prefix = here.settings.prefix
        with (
            instance(broker.url, prefix, slow, **env) as one,
            instance(broker.url, prefix, **env) as spare,
        ):
            one.wait_ready()
            await here.send(crowd(labels=12_000, tasks=100, workers=200, seed=5))
            with paused(broker):
                await asyncio.sleep(10)  # what is tested is that it is waited out
            await here.until_counted(12_000, deadline=120)
            assert one.process.poll() is None, one.log()
            assert spare.process.poll() is None, spare.log()
            assert "no progress" not in one.log() + spare.log()
