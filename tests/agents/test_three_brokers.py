"""Three brokers with three copies of everything: any one of them may go away at any time."""

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from sbic.kafka.admin import ensure_topics
from sbic.project.settings import Settings
from tests.agents.crowd import crowd
from tests.agents.flow import flowing, until_true
from tests.agents.kafka import ProjectOnBroker
from tests.agents.recount import agree_with_a_recount
from tests.brokers import EmbeddedCluster, kill, needs_proc
from tests.instances import instance

PARTITIONS = 3
ENV = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_REPLICATION": "3"}


def controller(folder: Path) -> int:
    """The node whose controller is the active one, as any node has written it down."""
    states = folder.glob("node-*/data/__cluster_metadata-0/quorum-state")
    known = [json.loads(state.read_text()) for state in states]
    latest: int = max(known, key=lambda state: state["leaderEpoch"])["leaderId"]
    return latest


def leaders(cluster: EmbeddedCluster, here: ProjectOnBroker) -> set[int]:
    """The nodes that lead a partition of the labels."""
    return {partition.leader for partition in partitions(cluster, here.topics.labels.name)}


def all_in_sync(cluster: EmbeddedCluster, here: ProjectOnBroker) -> bool:
    """Whether every copy of every record of the project, and of the group's offsets, is whole."""
    names = [*(topic.name for topic in here.topics), "__consumer_offsets"]
    return all(len(p.isrs) == 3 for name in names for p in partitions(cluster, name))


def partitions(cluster: EmbeddedCluster, topic: str):  # type: ignore[no-untyped-def]
    servers = ",".join(broker.address for broker in cluster.brokers.values())
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return admin.list_topics(topic, timeout=30).topics[topic].partitions.values()


@needs_proc
@pytest.mark.long
async def test_the_controller_and_each_leader_are_killed_and_one_broker_is_away_throughout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", logger="aiokafka")  # it complains all the time, rightly
    triples = crowd(labels=40_000, tasks=1_000, workers=200, seed=8)
    with EmbeddedCluster(tmp_path) as cluster:
        settings = Settings(
            broker=cluster.url,
            prefix=f"three-{uuid4().hex[:8]}",
            partitions=PARTITIONS,
            replication=3,
        )
        await ensure_topics(settings)
        here = ProjectOnBroker(settings)
        with instance(cluster.url, settings.prefix, **ENV) as first:
            first.wait_ready()
            async with flowing(here, triples) as flow:
                await flow.goes_on()
                lost = controller(tmp_path)
                for _ in range(3):
                    await asyncio.to_thread(kill, cluster.brokers[lost])
                    await flow.goes_on()
                    await asyncio.to_thread(cluster.brokers[lost].start)
                    await until_true(lambda: all_in_sync(cluster, here))
                    lost = min(leaders(cluster, here) - {lost})
                await asyncio.to_thread(cluster.brokers[lost].stop)
                await flow.goes_on()
                with instance(cluster.url, settings.prefix, **ENV) as second:
                    await asyncio.to_thread(second.wait_ready)
                    first.kill()
                    await flow.goes_on()
                    assert second.process.poll() is None
                    flow.is_over = True
                    await here.until_counted(len(flow.sent))
                    assert second.terminate() == 0
        await agree_with_a_recount(here, flow.sent)
