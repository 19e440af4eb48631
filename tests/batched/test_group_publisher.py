"""Groups are published in order, votes after their answers; then their batches are finished."""

import asyncio
from typing import Any
from uuid import uuid4

import faust
import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from sbic.instance.publication import Outbox
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.consumer import Batch
from sbic.runtime.faust.groups import GroupPublisher, Steps
from sbic.runtime.faust.producer import BatchProducer, Offsets
from sbic.wire.partitions import Row
from tests.batched.apps import OwnTopic, place


class NamesToPublish:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_full = False


class SlowKafka:
    """Acknowledges when the test says so; keeps what was published, request by request."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.acknowledge = asyncio.Semaphore(0)

    async def publish(self, outbox: Outbox) -> Offsets:
        self.requests.append([topic for topic, _ in outbox])
        await self.acknowledge.acquire()
        return {}


class Finished:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def finish(self, batch: Batch) -> None:
        self.batches.append(batch)


def pack(group: NamesToPublish) -> Steps:
    ahead, first, then = Outbox(), Outbox(), Outbox()
    row = Row(None, b"")
    for name in group.names:
        if name.startswith("bad"):
            ahead.add(f"dead letter {name}", 0, row)
        first.add(f"answers {name}", 0, row)
        then.add(f"votes {name}", 0, row)
    return Steps(first, lambda offsets, seconds: None, ahead, then)


def publisher_to(kafka: Any) -> GroupPublisher[NamesToPublish]:
    return GroupPublisher(kafka, NamesToPublish, pack)


async def step(groups: GroupPublisher[NamesToPublish], kafka: SlowKafka) -> None:
    """One request, acknowledged."""
    kafka.acknowledge.release()
    await groups._publish_next()


async def load(groups: GroupPublisher[NamesToPublish], name: str, finished: Finished) -> Batch:
    group = await groups.acquire()
    group.names.append(name)
    batch = Batch({}, finished)
    groups.notify(batch)
    return batch


async def test_votes_go_out_after_their_answers_with_those_of_the_next_group() -> None:
    kafka, finished = SlowKafka(), Finished()
    groups = publisher_to(kafka)
    a = await load(groups, "a", finished)
    await step(groups, kafka)
    assert finished.batches == []
    b = await load(groups, "b", finished)
    await step(groups, kafka)
    assert finished.batches == [a]
    await step(groups, kafka)
    assert kafka.requests == [["answers a"], ["votes a", "answers b"], ["votes b"]]
    assert finished.batches == [a, b]
    assert groups.idle.is_set()


async def test_what_goes_ahead_is_acknowledged_before_the_answers_go_out() -> None:
    kafka, finished = SlowKafka(), Finished()
    groups = publisher_to(kafka)
    await load(groups, "bad a", finished)
    under_way = asyncio.create_task(groups._publish_next())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert kafka.requests == [["dead letter bad a"]]
    kafka.acknowledge.release()
    kafka.acknowledge.release()
    await under_way
    assert kafka.requests[1:] == [["answers bad a"]]


async def test_what_comes_while_a_request_is_under_way_goes_out_together() -> None:
    kafka, finished = SlowKafka(), Finished()
    groups = publisher_to(kafka)
    await load(groups, "a", finished)
    under_way = asyncio.create_task(groups._publish_next())
    await asyncio.sleep(0)
    await load(groups, "b", finished)
    await load(groups, "c", finished)
    kafka.acknowledge.release()
    await under_way
    await step(groups, kafka)
    assert kafka.requests[1] == ["votes a", "answers b", "answers c"]
    assert not groups.idle.is_set()


def pack_posteriors(group: NamesToPublish) -> Steps:
    """The first group has answers, and the posteriors follow; later ones have only posteriors."""
    first, then = Outbox(), Outbox()
    for name in group.names:
        row = Row(None, name.encode())
        (then if name == "a" else first).add("posteriors", 0, row)
        if name == "a":
            first.add("answers", 0, row)
    return Steps(first, lambda offsets, seconds: None, outputs=then)


async def test_what_is_owed_goes_out_before_what_is_newer() -> None:
    class Kafka(SlowKafka):
        async def publish(self, outbox: Outbox) -> Offsets:
            rows = outbox.get(("posteriors", 0), [])
            self.requests.append([(value or b"").decode() for _, value, _, _ in rows])
            return {}

    kafka: Any = Kafka()
    groups = GroupPublisher(kafka, NamesToPublish, pack_posteriors)
    await load(groups, "a", Finished())
    await groups._publish_next()
    await load(groups, "b", Finished())
    await groups._publish_next()
    assert kafka.requests == [[], ["a", "b"]]


async def test_a_full_group_makes_the_agent_wait_until_the_next_one() -> None:
    kafka, finished = SlowKafka(), Finished()
    groups = publisher_to(kafka)
    await load(groups, "a", finished)
    groups.filling.is_full = True
    waiting = asyncio.create_task(groups.acquire())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    await step(groups, kafka)
    assert (await waiting) is groups.filling


async def test_nothing_is_kept_until_the_last_of_those_who_wait_has_been_served() -> None:
    """A rebalance may wait when a stop begins to wait too, and may be given up."""
    kafka, finished = SlowKafka(), Finished()
    groups = publisher_to(kafka)
    rebalance = asyncio.create_task(groups.wait_idle())
    stop = asyncio.create_task(groups.wait_idle())
    await asyncio.sleep(0)
    rebalance.cancel()
    await asyncio.gather(rebalance, return_exceptions=True)
    assert groups.is_flushing
    await load(groups, "a", finished)
    await step(groups, kafka)
    await step(groups, kafka)
    await stop
    assert not groups.is_flushing


# A record that Kafka refuses raises an error; Faust's own producer only logs it.


TOO_LARGE = b"x" * 10_000


async def topic_of_small_records(here: OwnTopic) -> str:
    name = f"small-{uuid4().hex[:8]}"
    async with here.admin() as admin:
        config = {"max.message.bytes": "1000"}
        await admin.create_topics([NewTopic(name, 2, 1, topic_configs=config)])
    return name


async def test_all_is_acknowledged_or_it_raises_what_kafka_said(broker: EmbeddedBroker) -> None:
    here = await place(broker)
    small = await topic_of_small_records(here)
    producer = BatchProducer(here.settings, "test")
    async with producer:
        outbox = Outbox()
        outbox.add(small, 0, Row(None, b"1"), Row(None, b"2"))
        outbox.add(small, 1, Row(None, b"3"))
        assert await producer.publish(outbox) == {(small, 0): 1, (small, 1): 0}
        outbox.add(small, 1, Row(None, TOO_LARGE))
        with pytest.raises(MessageSizeTooLargeError):
            await producer.publish(outbox)


async def test_what_does_not_fit_into_one_request_goes_out_in_order(broker: EmbeddedBroker) -> None:
    here = await place(broker)
    producer = BatchProducer(here.settings, "test")
    rows = [Row(None, b"%d" % number * 100_000) for number in range(10)]
    async with producer:
        outbox = Outbox()
        outbox.add(here.topic, 0, *rows, *rows)
        assert await producer.publish(outbox) == {(here.topic, 0): 19}
    assert [value[:1] for value in await here.values()] == [b"%d" % n for n in range(10)] * 2


async def test_faust_would_flush_as_if_nothing_had_happened(broker: EmbeddedBroker) -> None:
    here = await place(broker)
    small = await topic_of_small_records(here)
    app = faust.App("test", broker=f"kafka://{here.address}", web_enabled=False)
    producer = app.producer
    await producer.start()
    sent = await producer.send(small, None, TOO_LARGE, 0, None, None)
    await producer.flush()
    with pytest.raises(MessageSizeTooLargeError):
        await sent
    await producer.stop()
