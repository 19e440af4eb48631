"""Records that are not consumed do not hold up the fetching of other partitions."""

import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher

from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.membership import MAX_WAIT_MS, WAIT_UNTIL_TAKEN, fetch_soon
from tests.agents.kafka import until
from tests.batched.apps import OwnTopic, place, running
from tests.batched.test_in_loop_consumer import finish_all

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
