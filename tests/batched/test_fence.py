"""A producer does not publish after its instance has lost its place in the group."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sbic.instance.publication import Outbox
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.producer import BatchProducer, Fence, RemovedFromGroup, now
from sbic.wire.partitions import Row
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place

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
