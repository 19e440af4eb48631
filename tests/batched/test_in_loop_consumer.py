"""Fetching needs no thread, and leaving the group does not wait for other members."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.consumer import Batch
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place, running

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
