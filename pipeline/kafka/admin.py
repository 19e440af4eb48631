"""Creates the topics that are missing and checks those that are there: all or nothing."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from pipeline.kafka.access.granted import described
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import (
    MayNotCreate,
    Mismatch,
    MissingTopic,
    Refused,
    Unreachable,
    WrongTopics,
)
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.topics import Topic, Topics

ANSWER_SECONDS = 30
NOT_AUTHORIZED = (TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno)
OF_THE_TOPIC = 1  # where a configuration is from, in answers from version 1 on
# a broker that is new, or was just started, has to make or load its groups first
NOT_YET = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)


@dataclass(frozen=True)
class Found:
    """A topic as it is on the cluster."""

    partitions: int
    replication: int
    config: Mapping[str, str]
    has_leaders: bool


async def ensure_topics(settings: Settings) -> list[Topic]:
    """Create what is missing and return that; if anything that is there is wrong, change nothing.

    Raises `Unreachable`, `WrongTopics` or `Refused`.
    """
    topics = list(Topics(settings))
    await _check_rights(settings, topics)
    async with connected_admin(settings) as admin:
        found = await _find(admin, topics)
        _check(topics, found)
        missing = [topic for topic in topics if topic.name not in found]
        just_made = await _create(admin, settings, missing, validate_only=True)
        await _wait_and_check(admin, just_made)
        missing = [topic for topic in missing if topic not in just_made]
        faster = await _create(admin, settings, missing, validate_only=False)
        await _wait_and_check(admin, missing)
        return [topic for topic in missing if topic not in faster]


async def check_topics(settings: Settings, without: Collection[Topic] = ()) -> list[Topic]:
    """The topics that are missing; raises as `ensure_topics` does, and changes nothing."""
    topics = [topic for topic in Topics(settings) if topic not in without]
    await _check_rights(settings, topics)
    async with connected_admin(settings) as admin:
        found = await _find(admin, topics)
    _check(topics, found)
    return [topic for topic in topics if topic.name not in found]


async def alter_topics(settings: Settings) -> None:
    """Configure the topics that are there as the settings say; what else is configured stays."""
    topics = list(Topics(settings))
    async with connected_admin(settings) as admin:
        wrong = _misconfigured(topics, await _find(admin, topics))
        if not wrong:
            return
        await described(settings, [(topic.name, Operation.ALTER_CONFIGS) for topic in wrong])
        (response,) = await admin.alter_configs(
            [
                ConfigResource(
                    ConfigResourceType.TOPIC,
                    topic.name,
                    {**await _own_config(admin, topic.name), **topic.config},
                )
                for topic in wrong
            ]
        )
        for error_code, message, _, name in response.resources:
            if error_code:
                raise Refused(f"Kafka does not configure {name}: {why(error_code, message)}")
        while True:
            if not _misconfigured(wrong, await _find(admin, wrong)):
                return
            await asyncio.sleep(0.05)


async def _check_rights(settings: Settings, topics: Iterable[Topic]) -> None:
    """See that the configuration of those that are there can be seen."""
    await described(settings, [(topic.name, Operation.DESCRIBE_CONFIGS) for topic in topics])


def _misconfigured(topics: Iterable[Topic], found: Mapping[str, Found]) -> list[Topic]:
    return [
        topic
        for topic in topics
        if topic.name in found and not topic.config.items() <= found[topic.name].config.items()
    ]


async def _own_config(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    """What is configured for this topic itself, not for all of the broker."""
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    ((_, _, _, _, entries),) = response.resources
    return {entry[0]: entry[1] for entry in entries if entry[3] == OF_THE_TOPIC}


async def partitions_of(settings: Settings, topic: str, operation: Operation) -> int:
    """How many partitions a topic has, for a client that will read or write it.

    Raises `Unreachable`, `MissingTopic` or `NotAllowed`.
    """
    found = await described(settings, [(topic, operation)])
    if topic not in found:
        raise MissingTopic(topic, settings)
    return found[topic].partitions


async def committed_offsets(settings: Settings, group: str, topic: str) -> dict[int, int]:
    """The offsets that a group has committed, by partition."""
    async with connected_admin(settings) as admin:
        offsets = await admin.list_consumer_group_offsets(group)
    return {
        tp.partition: metadata.offset
        for tp, metadata in offsets.items()
        if tp.topic == topic and metadata.offset >= 0
    }


class GroupMember(NamedTuple):
    """A member of a consumer group, and the partitions that it reads."""

    client_id: str
    member_id: str
    host: str
    partitions: frozenset[TopicPartition]


class Group(NamedTuple):
    """A consumer group: its state in Kafka's words, and its members."""

    state: str
    members: list[GroupMember]
    committed: dict[TopicPartition, int]


async def describe_group(settings: Settings, group: str) -> Group:
    """A consumer group as Kafka knows it; one that nobody has joined yet is empty."""
    async with connected_admin(settings) as admin:
        while True:
            try:
                return await _describe_group(admin, group)
            except NOT_YET:
                await asyncio.sleep(0.1)


async def _describe_group(admin: AIOKafkaAdminClient, group: str) -> Group:
    (response,) = await admin.describe_consumer_groups([group])
    error_code, _, state, _, _, members, *_ = response.groups[0]
    if error_code:
        raise for_code(error_code)(f"cannot describe the group {group}")
    offsets = await admin.list_consumer_group_offsets(group)
    return Group(
        state,
        [_member(*member) for member in members],
        {place: found.offset for place, found in offsets.items() if found.offset >= 0},
    )


def _member(*fields: Any) -> GroupMember:
    member_id, *_, client_id, client_host, _, assignment = fields
    placed: frozenset[TopicPartition] = frozenset()
    if assignment:
        decoded = ConsumerProtocolMemberAssignment.decode(assignment)
        placed = frozenset(decoded.partitions())
    return GroupMember(client_id, member_id, client_host.removeprefix("/"), placed)


@asynccontextmanager
async def connected_admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client; what it raises becomes a `ClusterError`."""
    admin = Admin(settings)
    async with connected(admin, settings):
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                yield admin.client
        except TimeoutError:
            raise Unreachable(settings) from None


class Admin:
    """An admin client under the names that the others have for starting and stopping."""

    def __init__(self, settings: Settings) -> None:
        milliseconds = ANSWER_SECONDS * 1000
        options = client_options(settings)
        self.client = AIOKafkaAdminClient(**options, request_timeout_ms=milliseconds)

    async def start(self) -> None:
        """Connect."""
        await self.client.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()


async def _find(admin: AIOKafkaAdminClient, topics: Iterable[Topic]) -> dict[str, Found]:
    # all topics are asked for, since asking for one that is missing may create it
    described = {entry["topic"]: entry for entry in await admin.describe_topics()}
    names = [topic.name for topic in topics if topic.name in described]
    configs = await _configs(admin, names)
    return {name: _found(described[name]["partitions"], configs[name]) for name in configs}


def _found(partitions: list[dict[str, Any]], config: Mapping[str, str]) -> Found:
    return Found(
        partitions=len(partitions),
        replication=min((len(partition["replicas"]) for partition in partitions), default=0),
        config=config,
        has_leaders=all(partition["leader"] >= 0 for partition in partitions),
    )


async def _configs(
    admin: AIOKafkaAdminClient, names: Collection[str]
) -> dict[str, Mapping[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    (response,) = await admin.describe_configs(resources)
    configs: dict[str, Mapping[str, str]] = {}
    for error_code, message, _, name, entries in response.resources:
        if error_code == UnknownTopicOrPartitionError.errno:
            continue  # so new that this broker has not heard of it
        if error_code:
            raise Refused(f"cannot read the configuration of {name}: {why(error_code, message)}")
        configs[name] = {entry[0]: entry[1] for entry in entries}
    return configs


def _check(topics: Iterable[Topic], found: Mapping[str, Found]) -> None:
    wrong = [
        mismatch
        for topic in topics
        if topic.name in found
        for mismatch in mismatches(topic, found[topic.name])
    ]
    if wrong:
        raise WrongTopics(wrong)


def mismatches(topic: Topic, found: Found) -> list[Mismatch]:
    """What about the topic is not as it must be; more copies than needed do no harm."""
    wrong = []
    if found.partitions != topic.partitions:
        wrong.append(
            Mismatch(topic.name, _count(found.partitions, "partition"), str(topic.partitions))
        )
    if found.replication < topic.replication:
        has = _count(found.replication, "replica")
        wrong.append(Mismatch(topic.name, has, str(topic.replication)))
    for name, needed in topic.config.items():
        value = found.config.get(name)
        if value != needed:
            wrong.append(Mismatch(topic.name, f"{name}={value}", needed))
    return wrong


async def _create(
    admin: AIOKafkaAdminClient,
    settings: Settings,
    topics: Collection[Topic],
    *,
    validate_only: bool,
) -> list[Topic]:
    """Create the topics, or only see whether it can be done; those that another has just made."""
    requests = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication,
            topic_configs={**topic.config, **topic.tuning},
        )
        for topic in topics
    ]
    if not requests:
        return []
    response = await admin.create_topics(requests, validate_only=validate_only)
    there = set()
    for name, error_code, message in response.topic_errors:
        if error_code == TopicAlreadyExistsError.errno:
            there.add(name)
        elif error_code in NOT_AUTHORIZED:
            raise MayNotCreate(name, settings)
        elif error_code:
            raise Refused(f"Kafka does not create {name}: {why(error_code, message)}")
    return [topic for topic in topics if topic.name in there]


async def _wait_and_check(admin: AIOKafkaAdminClient, topics: Collection[Topic]) -> None:
    """Wait until every one of these new topics is known and has its leaders; then check them."""
    while topics:
        found = await _find(admin, topics)
        if len(found) == len(topics) and all(topic.has_leaders for topic in found.values()):
            _check(topics, found)
            return
        await asyncio.sleep(0.05)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def why(error_code: int, message: str | None) -> str:
    """The name of an error of Kafka, with what it says.

    >>> why(36, "Topic 'birds.labels' already exists.")
    "TopicAlreadyExists: Topic 'birds.labels' already exists."
    """
    name = for_code(error_code).__name__.removesuffix("Error")
    return f"{name}: {message}" if message else name
