"""Consumer groups: members, committed offsets, resetting and deleting; and those of sinks."""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from time import time
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import GroupAuthorizationFailedError, for_code
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest

from sbic.kafka.admin import connected_admin
from sbic.kafka.connect import ANSWER_SECONDS, AdminClient, connected, new_consumer
from sbic.kafka.errors import ClusterError, MissingRights
from sbic.kafka.protocol import NOT_READY, RETRY_SECONDS, Coordinator
from sbic.kafka.rights import READ, SINK_NAME, SINKS, Right
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


# Sinks: they commit what they have applied, so that it is seen; none of them resumes from that.


MOST_SINKS = 20
COMMIT_SECONDS = 5.0  # also when nothing was applied, as a sign of life
MILLISECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)

log = logging.getLogger("sbic")


class SinkOffsets:
    """Commits what a sink has applied, every few seconds.

    Whatever is in the way of that holds up nothing else. A right that is missing is a warning,
    once; that Kafka is away is what the sink notices itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = ""

    @asynccontextmanager
    async def committed(
        self, settings: Settings, applied: Callable[[], Mapping[TopicPartition, int]]
    ) -> AsyncIterator[None]:
        """Commit what `applied` returns while the block runs."""
        committing = asyncio.create_task(self._commit(settings, applied))
        try:
            yield
        finally:
            committing.cancel()
            await asyncio.wait([committing])

    async def _commit(
        self, settings: Settings, applied: Callable[[], Mapping[TopicPartition, int]]
    ) -> None:
        group = f"{settings.prefix}.{SINKS}{self._name}"
        while True:
            try:
                async with connected(Coordinator(settings, group), settings) as coordinator:
                    while True:
                        if offsets := applied():
                            await _commit_as_no_member(coordinator, offsets)
                            self._said = ""
                        await asyncio.sleep(COMMIT_SECONDS)
            except MissingRights as missing:
                if str(missing) != self._said:
                    log.warning("sbic status cannot show this sink: %s", missing)
                self._said = str(missing)
            except (ClusterError, TimeoutError) as error:
                log.debug("the offsets of this sink are not committed: %s", error)
            await asyncio.sleep(COMMIT_SECONDS)


async def _commit_as_no_member(
    coordinator: Coordinator, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit offsets to a group that has no members; raises `MissingRights`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await coordinator.ask(_commit_of(coordinator.group, offsets), _check_commit)
    except GroupAuthorizationFailedError:
        raise MissingRights(coordinator.settings, [Right(READ, "group", SINKS)]) from None


def _commit_of(group: str, applied: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    """Return the request of a client that is no member; its metadata says when."""
    at = str(int(1000 * time()))
    topics: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for tp, offset in applied.items():
        topics[tp.topic].append((tp.partition, offset, at))
    defaults = OffsetCommitRequest
    return OffsetCommitRequest(
        group,
        defaults.DEFAULT_GENERATION_ID,
        "",
        defaults.DEFAULT_RETENTION_TIME,
        list(topics.items()),
    )


def _check_commit(answer: Any) -> None:
    for topic, partitions in answer.topics:
        for _, error_code in partitions:
            _check(error_code, topic)


class AppliedBySink(NamedTuple):
    """The offsets that a sink has applied; when it last said so, in milliseconds, if known."""

    name: str
    offsets: Mapping[TopicPartition, int]
    at: int | None


async def sinks_of(
    admin: AdminClient, partitions: Collection[TopicPartition]
) -> tuple[int, list[AppliedBySink]]:
    """Return how many groups have the name of a sink, and the first that have such offsets.

    Anybody may name a group: what has another name than sinks can have is left out.
    """
    begin = f"{admin.settings.prefix}.{SINKS}"
    async with admin.answering() as client:
        groups = [str(group) for group, *_ in await client.list_consumer_groups()]
        names = sorted(
            group.removeprefix(begin)
            for group in groups
            if group.startswith(begin) and SINK_NAME.fullmatch(group.removeprefix(begin))
        )
        found = []
        for name in names[:MOST_SINKS]:
            fetched = await client.list_consumer_group_offsets(begin + name)
            ours = {tp: each for tp, each in fetched.items() if tp in partitions}
            if ours:
                said = (each.metadata or "" for each in ours.values())
                times = [int(text) for text in said if MILLISECONDS.fullmatch(text)]
                offsets = {tp: max(0, each.offset) for tp, each in ours.items()}
                found.append(AppliedBySink(name, offsets, max(times, default=None)))
    others = len(names[:MOST_SINKS]) - len(found)
    return len(names) - others, found
