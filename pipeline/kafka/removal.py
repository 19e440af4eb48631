"""Takes away what a project has on a cluster: topics, committed offsets, the group."""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.admin import DeleteGroupsRequest

from pipeline.kafka.access.granted import described
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.admin import connected_admin, why
from pipeline.kafka.connection import connected
from pipeline.kafka.coordinator import SOON, WAIT_SECONDS, Coordinator
from pipeline.kafka.errors import Refused
from pipeline.kafka.options import client_options
from pipeline.settings import Settings

NO_SUCH_GROUP = 69


async def delete_topics(settings: Settings, names: Collection[str]) -> None:
    """Delete these topics, if they are there; on return they are gone."""
    await described(settings, [(name, Operation.DELETE) for name in names])
    async with connected_admin(settings) as admin:
        there = [name for name in names if name in set(await admin.list_topics())]
        if not there:
            return
        response = await admin.delete_topics(there)
        for name, error_code, *message in response.topic_error_codes:
            if error_code and error_code != UnknownTopicOrPartitionError.errno:
                said = why(error_code, message[0] if message else None)
                raise Refused(f"Kafka does not delete {name}: {said}")
        while True:
            if not set(there) & set(await admin.list_topics()):
                return
            await asyncio.sleep(WAIT_SECONDS)


async def group_members(settings: Settings) -> int:
    """How many members the group of the project has."""
    async with connected_admin(settings) as admin:
        while True:
            try:
                (response,) = await admin.describe_consumer_groups([settings.prefix])
                ((error_code, _, _, _, _, members, *_),) = response.groups
                _check(error_code, settings.prefix)
                return len(members)
            except SOON:
                await asyncio.sleep(WAIT_SECONDS)


async def begin_at_zero(settings: Settings, topics: Iterable[str]) -> None:
    """Let the group, which has no members, begin these topics from their start."""
    async with connected_admin(settings) as admin:
        committed = await admin.list_consumer_group_offsets(settings.prefix)
    zero = {TopicPartition(*tp): 0 for tp in committed if tp.topic in set(topics)}
    if not zero:
        return
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        group_id=settings.prefix,
        enable_auto_commit=False,
    )
    async with connected(consumer, settings):
        consumer.assign(list(zero))
        await consumer.commit(zero)


async def delete_group(settings: Settings) -> None:
    """Delete the group, which has no members, with what it has committed."""

    def check(answer: Any) -> None:
        ((_, error_code),) = answer.results
        _check(error_code, settings.prefix)

    async with connected(Coordinator(settings), settings) as coordinator:
        await coordinator.ask(DeleteGroupsRequest([settings.prefix]), check)


def _check(error_code: int, group: str) -> None:
    """Raise what Kafka says of a group, unless all is well or there is no such group."""
    if error_code not in (0, NO_SUCH_GROUP):
        raise for_code(error_code)(group)
