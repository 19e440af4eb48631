"""An unexpected error stops the app with nothing acked; a shutdown finishes everything."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from sbic.instance.publication import Outbox
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.consumer import Batch
from sbic.runtime.faust.groups import GroupPublisher, Steps
from sbic.runtime.faust.producer import BatchProducer, Offsets
from sbic.wire.partitions import Row
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place, running


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit statuses of a process that goes on all the same."""
    seen: list[int] = []
    monkeypatch.setattr("os._exit", seen.append)
    return seen


async def fail(stream: Any) -> None:
    async for _ in stream:
        raise RuntimeError("more than it can bear")


async def test_what_an_agent_raised_on_is_not_committed_and_the_process_ends(
    broker: EmbeddedBroker, statuses: list[int]
) -> None:
    here = await place(broker)

    async def has_ended() -> bool:
        return bool(statuses)

    async with running(here.ours(fail)):
        await here.send(b"1")
        await until(has_ended)
    assert set(statuses) == {70}
    assert await here.committed() == 0


async def test_faust_would_commit_it_and_go_on(broker: EmbeddedBroker) -> None:
    here = await place(broker)

    async def is_committed() -> bool:
        return await here.committed() == 1

    async with running(here.stock(fail)):
        await here.send(b"1")
        await until(is_committed)


async def test_a_service_that_crashes_ends_the_process(statuses: list[int]) -> None:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    service = app.tables
    app.add_dependency(service)
    await service.crash(RuntimeError("more than it can bear"))
    assert set(statuses) == {70}


async def test_a_fetcher_that_is_cancelled_does_not(statuses: list[int]) -> None:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    app._crash(asyncio.CancelledError())
    assert statuses == []


def test_it_makes_no_folders_where_faust_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    BatchedApp("ours", broker="batched://127.0.0.1:1")._create_directories()
    assert list(tmp_path.iterdir()) == []
    faust.App("stock", store="memory://")._create_directories()
    assert [folder.name for folder in tmp_path.iterdir()] == ["stock-data"]


async def test_who_has_not_joined_leaves_at_once() -> None:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    await app.leave()
    assert app.should_stop


class GatheredValues:
    """Values to publish."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.is_full = False


class Passing:
    """An agent that passes records on, in a second step after a first one, as the real ones do."""

    def __init__(self, here: OwnTopic, out: str) -> None:
        self.out = out
        producer = BatchProducer(here.settings, "passing")
        self.groups = GroupPublisher(producer, GatheredValues, self.pack)
        self.taken = asyncio.Event()

    async def run(self, stream: Any) -> None:
        async for batch in stream:
            for records in batch.parts.values():
                group = await self.groups.acquire()
                group.values += [record.value for record in records]
            self.taken.set()
            self.groups.notify(batch)

    def pack(self, group: GatheredValues) -> Steps:
        then = Outbox()
        for value in group.values:
            then.add(self.out, 0, Row(None, value))
        return Steps(Outbox(), self.published, outputs=then)

    def published(self, offsets: Offsets, seconds: float) -> None:
        pass


async def test_asked_to_leave_it_publishes_and_commits_what_it_has_taken(
    broker: EmbeddedBroker,
) -> None:
    here, there = await place(broker), await place(broker)
    agent = Passing(here, there.topic)
    app = here.ours(agent.run)
    app.add_publisher(agent.groups)
    async with running(app):
        await here.send(b"1")
        await agent.taken.wait()
        await app.leave()
        assert await here.committed() == 1
        assert await there.end() == 1
        assert await here.members() == set()


# Fetching needs no thread, and leaving the group does not wait for other members.


LEAVES_IN_TIME = 10  # seconds: what is promised of an instance


async def finish_all(stream: Any) -> None:
    async for batch in stream:
        batch.finish()


async def count_all(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_it_fetches_without_the_thread_that_faust_would_start(broker: EmbeddedBroker) -> None:
    here = await place(broker)
    before = set(threading.enumerate())
    async with running(here.ours(finish_all)):
        await here.send(b"1")
        await until_committed(here, 1)
        assert set(threading.enumerate()) == before
    async with running(here.stock(count_all)):
        assert set(threading.enumerate()) > before


async def until_committed(here: OwnTopic, offset: int) -> None:
    async def is_committed() -> bool:
        return await here.committed() == offset

    await until(is_committed)


class Stubborn(ConsumerRebalanceListener):  # type: ignore[misc]
    """A member that holds up a rebalance until the test lets it finish."""

    def __init__(self) -> None:
        self.joined = asyncio.Event()
        self.asked = asyncio.Event()
        self.gives_in = asyncio.Event()

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        if revoked:
            self.asked.set()
            await self.gives_in.wait()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.joined.set()


async def member(here: OwnTopic, client_id: str, listener: Any = None) -> AIOKafkaConsumer:
    """Another one who joins the group."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=here.address,
        group_id=here.group,
        client_id=client_id,
        enable_auto_commit=False,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        heartbeat_interval_ms=100,
    )
    await consumer.start()
    consumer.subscribe([here.topic], listener=listener)
    return consumer


async def test_it_leaves_during_a_rebalance_in_which_kafka_waits_for_another_member(
    broker: EmbeddedBroker,
) -> None:
    here = await place(broker, partitions=3)
    app = here.ours(finish_all)
    listener = Stubborn()
    async with running(app):
        name = app.conf.broker_client_id
        stubborn = await member(here, "stubborn", listener)
        await listener.joined.wait()
        new = await member(here, "new")
        await listener.asked.wait()
        await until_rejoining(app.consumer._thread._consumer)  # type: ignore[attr-defined]
        assert name in await here.members()
        await asyncio.wait_for(app.leave(), LEAVES_IN_TIME)
        assert await here.members() == {"stubborn", "new"}
    listener.gives_in.set()
    await stubborn.stop()
    await new.stop()


async def until_rejoining(consumer: AIOKafkaConsumer) -> None:
    async def is_rejoining() -> bool:
        coordinator = consumer._coordinator
        return coordinator._performed_join_prepare and coordinator._heartbeat_task is None

    await until(is_rejoining)


async def test_aiokafka_itself_would_wait_for_that_member(broker: EmbeddedBroker) -> None:
    here = await place(broker, partitions=3)
    listener = Stubborn()
    stubborn = await member(here, "stubborn", listener)
    await listener.joined.wait()
    impatient = await member(here, "impatient")
    await listener.asked.wait()
    leaving = asyncio.create_task(impatient.stop())
    async with here.admin() as admin:  # any round trip: its time is enough for a request to leave
        await admin.list_consumer_groups()
    assert not leaving.done()
    assert "impatient" in await here.members()
    listener.gives_in.set()
    await leaving
    await stubborn.stop()


async def test_a_rebalance_that_begins_while_it_stops_does_not_stop_it_from_committing(
    broker: EmbeddedBroker,
) -> None:
    here = await place(broker, partitions=2)
    taken, may_finish = asyncio.Event(), asyncio.Event()

    async def take(stream: Any) -> None:
        batch: Batch
        async for batch in stream:
            taken.set()
            await may_finish.wait()
            batch.finish()

    app = here.ours(take)
    async with running(app):
        await here.send(b"1")
        await taken.wait()
        leaving = asyncio.create_task(app.leave())
        new = await member(here, "new")

        async def rebalance_has_begun() -> bool:
            return app.rebalancing

        await until(rebalance_has_begun)
        assert not leaving.done()
        may_finish.set()
        await asyncio.wait_for(leaving, LEAVES_IN_TIME)
        assert await here.committed() == 1
        await new.stop()
