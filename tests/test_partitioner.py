"""Our partitioner equals Java's, by its test vectors, and those of other clients."""

import aiokafka.partitioner
import pytest
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.columns import Names
from sbic.wire.partitions import homes_of, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=300), st.integers(1, 1000))
def test_the_partition_that_aiokafka_chooses(key: bytes, partitions: int) -> None:
    everywhere = list(range(partitions))
    chosen = aiokafka.partitioner.DefaultPartitioner()(key, everywhere, everywhere)
    assert partition_of(key, partitions) == chosen


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(1, 10_000))
def test_many_at_once_are_each_where_it_would_be_alone(names: list[str], partitions: int) -> None:
    alone = [partition_of(name.encode(), partitions) for name in names]
    assert homes_of(Names.of(names), partitions).tolist() == alone


async def test_the_partition_that_librdkafka_chooses(broker: EmbeddedBroker) -> None:
    settings = Settings(broker=broker.url, prefix="partitioner", partitions=7)
    await ensure_topics(settings)
    labels = Topics(settings).labels
    chosen: dict[bytes | None, int | None] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        chosen[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": broker.address, "partitioner": "murmur2_random"})
    keys = [f"{'w' * (i % 9)}é{i}🐦"[: 1 + i % 12].encode() for i in range(500)]
    for key in keys:
        producer.produce(labels.name, b"", key=key, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert chosen == {key: partition_of(key, labels.partitions) for key in keys}
