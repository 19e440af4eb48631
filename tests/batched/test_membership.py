"""Heartbeats go on during recovery; removal from the group is logged with its reason."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRebalanceListener
from aiokafka.protocol.group import LeaveGroupRequest

from sbic.instance.publication import Outbox
from sbic.kafka.groups import group_members
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.membership import Membership, leave_group
from sbic.runtime.faust.producer import BatchProducer, Fence, RemovedFromGroup, now
from sbic.wire.partitions import Row
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place, running
from tests.batched.test_app import finish_all, member


class Slow(ConsumerRebalanceListener):  # type: ignore[misc]
    """Takes its time over what it is assigned."""

    def __init__(self) -> None:
        self.assigned = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.assigned.set()
        await self.goes_on.wait()


async def test_aiokafka_sends_no_heartbeats_while_it_tells_what_is_assigned(
    broker: EmbeddedBroker,
) -> None:
    listener = Slow()
    consumer = await member(await place(broker), "slow", listener)
    await listener.assigned.wait()
    assert consumer._coordinator._heartbeat_task is None
    listener.goes_on.set()
    await consumer.stop()


async def test_an_app_sends_them(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = (await place(broker)).ours(finish_all)
    assign = app._on_partitions_assigned
    under_way = []

    async def look_and_assign(assigned: Any, generation_id: int = 0) -> None:
        kafka = app.consumer._thread._consumer  # type: ignore[attr-defined]
        under_way.append(kafka._coordinator._heartbeat_task)
        await assign(assigned, generation_id)

    monkeypatch.setattr(app, "_on_partitions_assigned", look_and_assign)
    async with running(app):
        assert under_way
        assert None not in under_way


async def test_an_app_that_was_put_out_says_so_and_joins_again(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    here = await place(broker)
    app = here.ours(finish_all)
    async with running(app):
        coordinator = app.consumer._thread._consumer._coordinator  # type: ignore[attr-defined]
        before = coordinator.member_id
        request = LeaveGroupRequest(here.group, before)
        await coordinator._send_req(request)  # as if Kafka had done it

        async def has_joined_again() -> bool:
            return coordinator.member_id not in ("", before) and not app.rebalancing

        await until(has_joined_again)
    said = [record.getMessage() for record in caplog.records if record.name == "sbic"]
    assert len(said) == 1  # and nothing when it leaves
    assert said[0].startswith("removed from the group: Kafka does not know this member")


async def test_a_place_is_certain_from_the_moment_at_which_it_was_asked_for(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may come after a stall: another may have taken the place by then."""
    app = (await place(broker)).ours(finish_all)
    assert not app.fence.is_overdue
    sent: list[float] = []
    monkeypatch.setattr(app.fence, "heartbeat_taken", sent.append)
    before = now()
    async with running(app):
        assert sent
        assert before < sent[0] < now()
        app.fence.heartbeat_sent = before - app.fence.session_seconds
        assert app.fence.is_overdue


async def test_before_it_is_connected_no_other_member_can_own_its_partitions() -> None:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    assert not app.fence.is_overdue


@pytest.mark.parametrize(
    ("silent", "idle", "why"),
    [
        (12.34, 0, "Kafka received no heartbeat for 12.3 s, more than the session timeout of 10 s"),
        (2.0, 301, "this instance took no records for 301 s"),
    ],
)
def test_the_reason_is_given(
    silent: float, idle: float, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = SimpleNamespace(
        generation=5,
        reset_generation=lambda: None,
        _do_heartbeat=None,
        _send_req=None,
        _max_poll_interval=300,
        _subscription=SimpleNamespace(fetcher_idle_time=idle),
    )
    kafka: Any = SimpleNamespace(_coordinator=coordinator)
    fence = Fence(session_seconds=10)
    fence.heartbeat_sent -= silent
    Membership(kafka, lambda: False, fence)
    with caplog.at_level(logging.WARNING):
        coordinator.reset_generation()
    assert why in caplog.text


async def leave_while_heartbeats_stop(broker: EmbeddedBroker, *, repeats: bool) -> int:
    """Leave the group at the one moment of a rebalance at which aiokafka loses a cancellation.

    Returns how many members the group has afterwards.
    """
    here = await place(broker)
    listener = Slow()
    listener.goes_on.set()
    consumer = await member(here, "one", listener)
    await listener.assigned.wait()
    coordinator = consumer._coordinator
    await until(is_true(lambda: coordinator._heartbeat_task is not None))
    stopping, stop = asyncio.Event(), coordinator._stop_heartbeat_task

    async def tell_and_stop() -> None:
        stopping.set()
        await stop()

    coordinator._stop_heartbeat_task = tell_and_stop
    coordinator.request_rejoin()
    await stopping.wait()
    coordinator._stop_heartbeat_task = stop
    if repeats:
        await asyncio.wait_for(leave_group(consumer, is_static=False), 30)
    else:
        coordinator._coordination_task.cancel()
        rejoined = is_true(lambda: coordinator._heartbeat_task is not None)
        await until(rejoined)
        assert not coordinator._coordination_task.done()
    settings = Settings(broker=broker.url, prefix=coordinator.group_id)
    members = await group_members(settings)
    await consumer.stop()
    return members


def is_true(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return condition()

    return holds


async def test_aiokafka_loses_a_cancellation_while_it_stops_its_heartbeats(
    broker: EmbeddedBroker,
) -> None:
    assert await leave_while_heartbeats_stop(broker, repeats=False) == 1


async def test_an_instance_leaves_the_group_at_any_moment_of_a_rebalance(
    broker: EmbeddedBroker,
) -> None:
    assert await leave_while_heartbeats_stop(broker, repeats=True) == 0


# A producer does not publish after its instance has lost its place in the group.


SESSION_SECONDS = 10.0


@asynccontextmanager
async def fenced(here: OwnTopic) -> AsyncIterator[tuple[BatchProducer, Fence]]:
    """A producer of an instance that has just joined."""
    fence = Fence(SESSION_SECONDS)
    fence.heartbeat_taken(now())
    fence.begin()
    producer = BatchProducer(here.settings, "test", fence)
    async with producer:
        yield producer, fence


def outbox_of(here: OwnTopic, *values: bytes) -> Outbox:
    outbox = Outbox()
    for partition in range(here.partitions):
        outbox.add(here.topic, partition, *(Row(None, value) for value in values))
    return outbox


async def test_what_is_overdue_waits_and_goes_out_once_kafka_has_taken_a_heartbeat(
    broker: EmbeddedBroker,
) -> None:
    here = await place(broker)
    async with fenced(here) as (producer, fence):
        await producer.publish(outbox_of(here, b"in time"))
        fence.heartbeat_taken(now() - SESSION_SECONDS)
        waiting = asyncio.create_task(producer.publish(outbox_of(here, b"late")))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.5)
        assert await here.values() == [b"in time"]
        fence.heartbeat_taken(now())
        assert await waiting == {(here.topic, 0): 1}
    assert await here.values() == [b"in time", b"late"]


async def test_what_waits_when_the_place_is_lost_is_never_published_and_later_records_are(
    broker: EmbeddedBroker,
) -> None:
    here = await place(broker, partitions=3)
    async with fenced(here) as (producer, fence):
        await producer.publish(outbox_of(here, b"in time"))
        fence.heartbeat_taken(now() - SESSION_SECONDS)
        waiting = asyncio.create_task(producer.publish(outbox_of(here, b"late")))

        async def is_under_way() -> bool:
            return bool(producer.writer.kafka._sender._muted_partitions)

        await until(is_under_way)
        fence.lose()
        fence.heartbeat_taken(now())
        fence.begin()  # it has joined again: that is another place
        with pytest.raises(RemovedFromGroup):
            await waiting
        fence.lose()
        with pytest.raises(RemovedFromGroup):
            await producer.publish(outbox_of(here, b"of no place"))
        with pytest.raises(RemovedFromGroup):
            await producer.publish(Outbox())  # else its batch would be finished
        fence.begin()
        await producer.publish(outbox_of(here, b"of the new place"))
    assert await here.values() == [b"in time", b"of the new place"]
