"""Which votes an instance counts before it takes labels."""

from aiokafka import AIOKafkaConsumer, TopicPartition

from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.followers import unread_votes
from tests.agents.kafka import project


async def test_the_votes_of_own_partitions_after_the_committed_ones_are_unread(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    topic = here.topics.votes.name
    async with here.producer() as producer:
        for partition in range(3):
            for number in range(partition * 2):
                await producer.send_and_wait(topic, b"%d" % number, partition=partition)
    committing = AIOKafkaConsumer(
        **client_options(here.settings), group_id=here.settings.prefix, enable_auto_commit=False
    )
    async with committing:
        committing.assign([TopicPartition(topic, 2)])
        await committing.commit({TopicPartition(topic, 2): 3})

    async def unread(*partitions: int) -> list[tuple[int, bytes | None]]:
        found = unread_votes(here.settings, set(partitions))
        return [(partition, one.value) async for partition, some in found for one in some]

    assert await unread(0, 2) == [(2, b"3")]
    assert await unread(1) == [(1, b"0"), (1, b"1")]
