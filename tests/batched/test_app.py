"""An unexpected error stops the app with nothing acked; a shutdown finishes everything."""

import asyncio
from pathlib import Path
from typing import Any

import faust
import pytest

from sbic.instance.publication import Outbox
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.app import BatchedApp
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
