"""Consumer groups: members, committed offsets, resetting and deleting."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code
from aiokafka.protocol.admin import DeleteGroupsRequest

from sbic.kafka.admin import connected_admin
from sbic.kafka.connect import AdminClient, connected, new_consumer
from sbic.kafka.protocol import NOT_READY, RETRY_SECONDS, Coordinator
from sbic.project.settings import Settings

GROUP_ID_NOT_FOUND = 69


class GroupMember(NamedTuple):
    """A member of a consumer group, and the partitions assigned to it."""

    client_id: str
    member_id: str
    host: str
    partitions: frozenset[TopicPartition]


class ConsumerGroup(NamedTuple):
    """A consumer group: its state in Kafka's words, its members and its committed offsets."""

    state: str
    members: list[GroupMember]
    committed: dict[TopicPartition, int]


async def describe_group(admin: AdminClient) -> ConsumerGroup:
    """Return the group of the project; one that does not exist has no members and no offsets."""
    group = admin.settings.prefix
    async with admin.answering() as client:
        state, members = await _describe(client, group)
        return ConsumerGroup(state, members, await committed_by(client, group))


async def committed_by(client: AIOKafkaAdminClient, group: str) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed."""
    offsets = await client.list_consumer_group_offsets(group)
    return {tp: found.offset for tp, found in offsets.items() if found.offset >= 0}


async def group_members(settings: Settings) -> int:
    """How many members the group of the project has."""
    async with connected_admin(settings) as admin:
        _, members = await _describe(admin, settings.prefix)
        return len(members)


async def _describe(admin: AIOKafkaAdminClient, group: str) -> tuple[str, list[GroupMember]]:
    while True:
        try:
            (response,) = await admin.describe_consumer_groups([group])
            ((error_code, _, state, _, _, members, *_),) = response.groups
            _check(error_code, group)
            return state, [_member(*member) for member in members]
        except NOT_READY:
            await asyncio.sleep(RETRY_SECONDS)


def _member(*fields: Any) -> GroupMember:
    member_id, *_, client_id, client_host, _, assignment = fields
    assigned: frozenset[TopicPartition] = frozenset()
    if assignment:
        decoded = ConsumerProtocolMemberAssignment.decode(assignment)
        assigned = frozenset(decoded.partitions())
    return GroupMember(client_id, member_id, client_host.removeprefix("/"), assigned)


async def committed_offsets(settings: Settings, group: str, topic: str) -> dict[int, int]:
    """Return the offsets that a group has committed on a topic, by partition."""
    async with connected_admin(settings) as admin:
        committed = await committed_by(admin, group)
    return {tp.partition: offset for tp, offset in committed.items() if tp.topic == topic}


async def commit_zero(settings: Settings, topics: Iterable[str]) -> None:
    """Reset the committed offsets on these topics to 0; the group must have no members."""
    async with connected_admin(settings) as admin:
        committed = await committed_by(admin, settings.prefix)
    zero = {TopicPartition(*tp): 0 for tp in committed if tp.topic in set(topics)}
    if not zero:
        return
    consumer = new_consumer(settings, group_id=settings.prefix)
    async with connected(consumer, settings):
        consumer.assign(list(zero))
        await consumer.commit(zero)


async def delete_group(settings: Settings) -> None:
    """Delete the group and its committed offsets; it must have no members."""

    def check(answer: Any) -> None:
        ((_, error_code),) = answer.results
        _check(error_code, settings.prefix)

    async with connected(Coordinator(settings), settings) as coordinator:
        await coordinator.ask(DeleteGroupsRequest([settings.prefix]), check)


def _check(error_code: int, group: str) -> None:
    """Raise the error that Kafka reports of a group; one that does not exist is no error."""
    if error_code not in (0, GROUP_ID_NOT_FOUND):
        raise for_code(error_code)(group)
