"""Records that are not consumed do not hold up the fetching of other partitions."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher
from faust.types import TP

from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.consumer import Batch, BatchConsumer
from sbic.runtime.faust.membership import MAX_WAIT_MS, WAIT_UNTIL_TAKEN, fetch_soon
from sbic.runtime.faust.recovery import BatchTable
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place, running
from tests.batched.test_app import finish_all

AIOKAFKA_WAITS = 0.1


class Clock:
    """What aiokafka's fetcher takes for the module `time`; it stands still until it is moved."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


def consumer_of(here: OwnTopic) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(bootstrap_servers=here.address, auto_offset_reset="earliest")


def has(consumer: AIOKafkaConsumer, tp: TopicPartition) -> Callable[[], bool]:
    return lambda: tp in consumer._fetcher._records


async def test_untaken_records_hold_up_other_partitions_for_a_moment_only(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await place(broker, partitions=2)
    untaken, other = (TopicPartition(here.topic, partition) for partition in (0, 1))
    clock = Clock()
    monkeypatch.setattr(fetcher, "time", clock)
    await here.send(b"untaken")
    async with consumer_of(here) as stock, consumer_of(here) as ours:
        fetch_soon(ours)
        for consumer in (stock, ours):
            consumer.assign([untaken, other])
            await until_true(has(consumer, untaken))
        await here.send(b"other", partition=1)
        clock.now += 2 * WAIT_UNTIL_TAKEN
        await until_true(has(ours, other))
        await here.end()  # any round trip: the time of one is enough for aiokafka to fetch, too
        assert not has(stock, other)()
        clock.now += AIOKAFKA_WAITS
        await until_true(has(stock, other))


async def until_true(condition: Callable[[], bool]) -> None:
    async def is_true() -> bool:
        return condition()

    await until(is_true)


async def test_an_app_fetches_soon(broker: EmbeddedBroker) -> None:
    here = await place(broker)
    app = here.ours(finish_all)
    async with running(app):
        kafka = app.consumer._thread._consumer  # type: ignore[attr-defined]
        assert kafka._fetcher._prefetch_backoff == WAIT_UNTIL_TAKEN
        assert kafka._fetcher._fetch_max_wait_ms == MAX_WAIT_MS


# An agent that lags does not hold up the records of other agents.


PARTITIONS = 4


async def test_others_go_on_while_one_agent_takes_nothing(broker: EmbeddedBroker) -> None:
    busy, quick = await place(broker, PARTITIONS), await place(broker, PARTITIONS)
    came, may_go_on = asyncio.Event(), asyncio.Event()

    async def be_behind(stream: Any) -> None:
        async for batch in stream:
            await may_go_on.wait()
            batch.finish()

    async def be_quick(stream: Any) -> None:
        async for batch in stream:
            batch.finish()
            came.set()

    app = busy.ours(be_behind)
    app.agent(app.topic(quick.topic), name="quick")(be_quick)
    async with running(app):
        try:
            for number in range(10 * app.conf.stream_buffer_maxsize):
                await busy.send(b"1", partition=number % PARTITIONS)  # each is fetched separately
            await quick.send(b"1")
            await asyncio.wait_for(came.wait(), 30)
        finally:
            may_go_on.set()  # else it could not be stopped


# The records of a partition are delivered in order, without gaps.


HERE = TP("labels", 0)


def consumer_at(offset: int) -> BatchConsumer:
    consumer = BatchConsumer.__new__(BatchConsumer)
    consumer.next_offset = {HERE: offset}
    consumer.gaps = {}
    consumer.finished = {}
    consumer.waiting = {}
    return consumer


def records(*offsets: int) -> list[Any]:
    return [SimpleNamespace(offset=offset, timestamp=offset) for offset in offsets]


def offsets(consumer: BatchConsumer, *fetched: int) -> list[int]:
    return [record.offset for record in consumer._in_order(HERE, records(*fetched))]


def test_the_workarounds_are_for_this_version_of_faust() -> None:
    assert faust.__version__ == "0.15.3", "look through sbic/runtime/faust: is all of it needed?"


def test_what_follows_is_handed_out_and_what_was_before_is_not_again() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 5, 6) == [5, 6]
    assert offsets(consumer, 3, 4, 5, 6) == [5, 6]


def test_what_jumped_ahead_is_not_handed_out_before_what_is_missing() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 8, 9) == []
    assert offsets(consumer, 5, 6, 7, 8, 9) == [5, 6, 7, 8, 9]


def test_a_gap_of_kafkas_own_is_passed_after_a_second_look() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 8, 9) == []
    assert offsets(consumer, 8, 9) == [8, 9]


def test_only_what_is_finished_can_be_committed() -> None:
    consumer = consumer_at(5)
    batch = Batch({HERE: records(5, 6)}, consumer)
    assert consumer.finished == {}
    batch.finish()
    assert consumer.finished == {HERE: 7}


def test_a_table_reads_on_after_what_its_owner_wrote_unless_others_wrote_between() -> None:
    table = BatchTable.__new__(BatchTable)
    table.offsets, table.diverged = {0: 9}, set()
    table._changelog_topic = SimpleNamespace(get_topic_name=lambda: "answers")  # type: ignore[assignment]
    outbox: Any = {("answers", 0): [None, None]}
    table.wrote(outbox, {("answers", 0): 11})
    assert (table.offsets, table.diverged) == ({0: 11}, set())
    table.wrote(outbox, {("answers", 0): 99})
    assert (table.offsets, table.diverged) == ({0: 11}, {0})


def test_a_table_applies_nothing_twice_and_nothing_of_a_partition_that_it_has_lost() -> None:
    restored: list[int] = []
    table = BatchTable.__new__(BatchTable)
    table.offsets = {0: 5}

    def restore(partition: int, some: list[Any]) -> None:
        restored.extend(record.offset for record in some)

    table.states = SimpleNamespace(restore=restore)
    table.restore(0, records(4, 5, 6))
    assert (restored, table.offsets) == ([6], {0: 6})
    table.restore(0, records(6, 7))
    table.restore(0, records(6, 7))
    table.restore(1, records(0))
    assert (restored, table.offsets) == ([6, 7], {0: 7})
