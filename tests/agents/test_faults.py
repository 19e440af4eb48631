"""Every label counts once, under SIGKILL, rebalances, restarts and repeated input."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from sbic.client import Posterior
from sbic.engine.labels import Prior
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from tests.agents.crowd import algorithm_1, as_taken, crowd
from tests.agents.flow import flowing, until_true
from tests.agents.kafka import ProjectOnBroker, Triple, project, until
from tests.agents.recount import agree_with_a_recount
from tests.agents.workforce import Workforce, register, workforce
from tests.brokers import EmbeddedCluster, kill, needs_proc
from tests.instances import RunningInstance, instance


class SteadyLabels:
    """Labels sent at a steady rate, with a bad record after every hundred."""

    def __init__(self, here: ProjectOnBroker, triples: Sequence[Triple]) -> None:
        self.here = here
        self.triples = triples
        self.sent = 0
        self.bad: list[bytes] = []

    async def flow(self) -> None:
        async with self.here.producer() as producer:
            while self.sent < len(self.triples):
                await self.here.send(self.triples[self.sent : self.sent + 100])
                self.sent += 100
                rubbish = b"rubbish %d" % self.sent
                await producer.send_and_wait(self.here.topics.labels.name, rubbish)
                self.bad.append(rubbish)
                await asyncio.sleep(0.1)  # some hundred labels a second

    async def has_sent(self, more: int) -> None:
        """Wait until it has sent this many more labels from now on."""
        goal = self.sent + more

        async def reached() -> bool:
            return self.sent >= goal

        await until(reached)


async def test_one_of_two_is_killed_and_later_a_third_joins(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=40_000, tasks=2_000, workers=300, seed=3)
    here = await project(broker)
    prefix = here.settings.prefix
    stream = SteadyLabels(here, triples)
    with instance(broker.url, prefix) as first, instance(broker.url, prefix) as second:
        first.wait_ready()
        second.wait_ready()
        sending = asyncio.create_task(stream.flow())
        await here.until_counted(1_000)
        second.kill()
        await until_it_owns(first, here.settings.partitions)
        await stream.has_sent(500)
        with instance(broker.url, prefix) as third:
            await asyncio.to_thread(third.wait_ready)
            assert not sending.done(), "no label was in flight when the third joined"
            await stream.has_sent(500)
            stream.triples = triples = triples[: stream.sent + 500]
            await sending
            await here.until_counted(len(triples), deadline=90)
            bad = set(stream.bad)
            await here.until_read(
                here.topics.dead_letters.name, lambda dead: {one.value for one in dead} >= bad
            )
            assert third.terminate() == 0
        assert first.terminate() == 0
    await agree_with_a_recount(here, triples)
    dead = await here.read(here.topics.dead_letters.name)
    assert {record.value for record in dead} == set(stream.bad)


async def until_it_owns(running: RunningInstance, partitions: int) -> None:
    """Wait until all partitions of the labels are one instance's."""

    async def owns() -> bool:
        metrics = await asyncio.to_thread(running.metrics)
        labels = [
            name for name in metrics if name.startswith("sbic_lag_records") and ".labels" in name
        ]
        return len(labels) == partitions

    await until(owns)


@pytest.mark.broker
async def test_stop_everything_and_start_again(tmp_path: Path) -> None:
    triples = crowd(labels=3_000, tasks=100, workers=60, seed=4)
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        here = await project(broker)
        with instance(broker.url, here.settings.prefix) as running:
            running.wait_ready()
            await here.send(triples[:2_000])
            before = await here.until_counted(2_000)
            assert running.terminate() == 0
    with (
        EmbeddedBroker(port=broker.port, data_dir=tmp_path),
        instance(broker.url, here.settings.prefix) as running,
    ):
        running.wait_ready()
        agree(await here.posteriors(), before)
        await here.send(triples[2_000:])
        posteriors = await here.until_counted(3_000)
        assert running.metrics()['sbic_labels_total{outcome="counted"}'] == 1_000
        assert running.terminate() == 0
        taken = await as_taken(here)
    engine = algorithm_1(taken, Prior())
    for task, posterior in posteriors.items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)


def without_sources(posteriors: dict[str, Posterior]) -> dict[str, dict[str, object]]:
    return {
        task: {name: value for name, value in posterior.items() if name != "sources"}
        for task, posterior in posteriors.items()
    }


async def test_the_same_labels_again_change_nothing(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=1_000, tasks=50, workers=30, seed=5)
    here = await project(broker)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        twice = [triple for triple in triples for _ in range(2)]  # a producer that sends all twice
        before = await here.until_dealt_with(twice, await here.send(twice))
        after = await here.until_dealt_with(triples, await here.send(triples))
        assert without_sources(after) == without_sources(before)
        metrics = running.metrics()
    assert sum(posterior["labels"] for posterior in after.values()) == len(triples)
    assert metrics['sbic_labels_total{outcome="repeated"}'] == 2 * len(triples)


async def test_with_repeats_last_the_later_answer_replaces_the_earlier_one(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1)
    others = crowd(labels=200, tasks=20, workers=12, seed=6)
    first, later = ("t1", "ann", 1), ("t1", "ann", -1)
    env = {"SBIC_REPEATS": "last", "SBIC_PARTITIONS": "1"}
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        triples: list[Triple] = [first, *others, later]
        posteriors = await here.until_dealt_with(triples, await here.send(triples))
    engine = algorithm_1([first, *others], Prior())
    engine.revert("t1", "ann")
    engine.observe(*later)
    assert sum(posterior["labels"] for posterior in posteriors.values()) == len(others) + 1
    for task, posterior in posteriors.items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)


def agree(posteriors: dict[str, Posterior], before: dict[str, Posterior]) -> None:
    """The same of every task, but for the last bits of sums that were added up in another order."""
    assert posteriors.keys() == before.keys()
    for task, posterior in posteriors.items():
        close = {name: pytest.approx(before[task][name], abs=1e-12) for name in ROUNDED}
        assert posterior == {**before[task], **close}


ROUNDED = ("log_odds", "probability")

# A clock that jumps back an hour: leases may last longer, and nothing else is different.


# All of the instance reads the time from there; what counts seconds has another clock.
JUMPS_BACK_WHEN_TOLD = """
import os, time

now, now_ns = time.time, time.time_ns

def back():
    return 3600 if os.path.exists({told!r}) else 0

time.time = lambda: now() - back()
time.time_ns = lambda: now_ns() - back() * 10**9
"""
TASKS = [f"t{number}" for number in range(30)]


async def ask_and_answer(crowd: Workforce, worker: str) -> tuple[str, int]:
    """The task that a worker gets and when it expires; they answer it, and the lease ends."""
    await crowd.ask(worker)
    given = await crowd.hear(worker)
    await crowd.hand_in(worker, given["task"], 1)
    ended = await crowd.hear(worker)
    assert (ended["id"], ended["ended"]) == (given["id"], "answered")
    return given["task"], given["expires_at"]


async def test_a_clock_that_jumps_back_an_hour_loses_nothing_and_gives_no_task_twice(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    change = JUMPS_BACK_WHEN_TOLD.format(told=str(told))
    triples = crowd(labels=1_500, tasks=100, workers=60, seed=12)
    here = await project(broker, partitions=2)
    env = {"SBIC_PARTITIONS": "2"}
    got: list[tuple[str, int]] = []
    async with workforce(here) as people:
        with instance(broker.url, here.settings.prefix, change, **env) as running:
            running.wait_ready()
            await register(here, TASKS)
            await here.send(triples[:500])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            told.touch()
            await here.send(triples[500:1_000])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            await here.until_counted(1_000 + len(got))
            running.kill()  # the next start reads times that go back
        told.unlink()
        with instance(broker.url, here.settings.prefix, change, **env) as running:
            running.wait_ready()
            await here.send(triples[1_000:])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            await here.until_counted(1_500 + len(got))
            assert running.metrics()["sbic_leases"] == 0
            assert running.terminate() == 0
    before, after = got[4][1], got[5][1]
    assert after < before - 3_000_000, "the clock did not jump"
    tasks = [task for task, _ in got]
    assert len(set(tasks)) == len(tasks)
    await agree_with_a_recount(here, [*triples, *((task, "ann", 1) for task in tasks)])


# Three brokers with three copies of everything: any one of them may go away at any time.


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
