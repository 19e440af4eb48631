"""Every label counts once, under SIGKILL, rebalances, restarts and repeated input."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from sbic.client import Posterior
from sbic.engine.labels import Prior
from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import algorithm_1, as_taken, crowd
from tests.agents.kafka import ProjectOnBroker, Triple, project, until
from tests.agents.recount import agree_with_a_recount
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
