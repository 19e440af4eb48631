"""A record that Kafka refuses raises an error; Faust's own producer only logs it."""

from uuid import uuid4

import faust
import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from sbic.instance.publication import Outbox
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.faust.producer import BatchProducer
from sbic.wire.partitions import Row
from tests.batched.apps import OwnTopic, place

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
