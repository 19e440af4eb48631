"""Topics: as they are on the cluster, as they must be; created, altered and deleted."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from sbic.kafka.connect import AdminClient, connected, new_consumer
from sbic.kafka.errors import MayNotCreate, Mismatch, MissingTopic, Refused, WrongTopics
from sbic.kafka.protocol import describe_topics
from sbic.kafka.rights import Need, Operation
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics


@asynccontextmanager
async def connected_admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect an admin client; every error of Kafka becomes a `ClusterError`."""
    async with connected(AdminClient(settings), settings) as admin, admin.answering() as client:
        yield client


def why(error_code: int, message: str | None) -> str:
    """Return the name of a Kafka error, with the broker's message if there is one.

    >>> why(36, "Topic 'birds.labels' already exists.")
    "TopicAlreadyExists: Topic 'birds.labels' already exists."
    """
    name = for_code(error_code).__name__.removesuffix("Error")
    return f"{name}: {message}" if message else name


# Topics as they are on the cluster, compared with what the project needs.


DYNAMIC_TOPIC_CONFIG = 1  # the source of a configuration entry, in responses since version 1


@dataclass(frozen=True)
class ExistingTopic:
    """A topic as it is on the cluster."""

    partitions: int
    replication: int
    config: Mapping[str, str]
    has_leaders: bool


async def find_topics(
    admin: AIOKafkaAdminClient, topics: Iterable[Topic]
) -> dict[str, ExistingTopic]:
    """Those of the topics that exist, by name."""
    # metadata of all topics is requested: a request that names a missing topic may create it
    described = {entry["topic"]: entry for entry in await admin.describe_topics()}
    names = [topic.name for topic in topics if topic.name in described]
    configs = await _configs(admin, names)
    return {name: _found(described[name]["partitions"], configs[name]) for name in configs}


def _found(partitions: list[dict[str, Any]], config: Mapping[str, str]) -> ExistingTopic:
    return ExistingTopic(
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
            continue  # just created: this broker does not have its metadata yet
        if error_code:
            raise Refused(f"cannot read the configuration of {name}: {why(error_code, message)}")
        configs[name] = {entry[0]: entry[1] for entry in entries}
    return configs


async def topic_overrides(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    """Return the configuration set on this topic itself, without the broker's defaults."""
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    ((_, _, _, _, entries),) = response.resources
    return {
        key: value
        for key, value, _read_only, source, *_ in entries
        if source == DYNAMIC_TOPIC_CONFIG
    }


def check_found(
    topics: Iterable[Topic], found: Mapping[str, ExistingTopic], *, is_made: bool = False
) -> None:
    """Raise `WrongTopics` if any topic that exists is not as the project needs it.

    Those of a project that `is_made` may have more partitions, which `sbic.project.added` looks
    into, and other values of the configuration that instances watch.
    """
    wrong = [
        mismatch
        for topic in topics
        if topic.name in found
        for mismatch in mismatches(topic, found[topic.name], is_made=is_made)
    ]
    if wrong:
        raise WrongTopics(wrong)


def mismatches(topic: Topic, found: ExistingTopic, *, is_made: bool = False) -> list[Mismatch]:
    """How a topic differs from what is needed; extra replicas are fine.

    >>> from sbic.project.settings import Settings
    >>> from sbic.project.topics import Topics
    >>> labels = Topics(Settings()).labels
    >>> [str(wrong) for wrong in mismatches(labels, ExistingTopic(4, 3, labels.config, True))]
    ['sbic.labels has 4 partitions and needs 8']
    """
    wrong = []
    has_more = found.partitions > topic.partitions
    if found.partitions != topic.partitions and not (has_more and is_made):
        has = _count(found.partitions, "partition")
        wrong.append(Mismatch(topic.name, has, str(topic.partitions)))
    if found.replication < topic.replication:
        has = _count(found.replication, "replica")
        wrong.append(Mismatch(topic.name, has, str(topic.replication)))
    for name, needed in topic.config.items():
        value = found.config.get(name)
        if value != needed and not (is_made and name in topic.watched):
            wrong.append(Mismatch(topic.name, f"{name}={value}", needed))
    return wrong


def misconfigured(topics: Iterable[Topic], found: Mapping[str, ExistingTopic]) -> list[Topic]:
    """Return the topics that exist with another configuration than they need."""
    return [
        topic
        for topic in topics
        if topic.name in found and not topic.config.items() <= found[topic.name].config.items()
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# Creates, checks, alters and deletes the topics of a project.


POLL_SECONDS = 0.05
NOT_AUTHORIZED = (TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno)


async def ensure_topics(settings: Settings, *, is_made: bool = False) -> list[Topic]:
    """Create the missing topics and return them; if an existing one is wrong, change nothing.

    Raises `KafkaUnreachable`, `WrongTopics` or `Refused`.
    """
    topics = list(Topics(settings))
    await _check_rights(settings, topics, Operation.DESCRIBE_CONFIGS)
    async with connected_admin(settings) as admin:
        found = await find_topics(admin, topics)
        check_found(topics, found, is_made=is_made)
        missing = [topic for topic in topics if topic.name not in found]
        # another process may create the same topics at the same time
        just_made = await _create(admin, settings, missing, validate_only=True)
        await _wait_and_check(admin, just_made)
        missing = [topic for topic in missing if topic not in just_made]
        made_by_others = await _create(admin, settings, missing, validate_only=False)
        await _wait_and_check(admin, missing)
        return [topic for topic in missing if topic not in made_by_others]


async def check_topics(settings: Settings, without: Collection[Topic] = ()) -> list[Topic]:
    """Return the missing topics of a project; raise as `ensure_topics`, and change nothing."""
    topics = [topic for topic in Topics(settings) if topic not in without]
    await _check_rights(settings, topics, Operation.DESCRIBE_CONFIGS)
    async with connected_admin(settings) as admin:
        found = await find_topics(admin, topics)
    check_found(topics, found, is_made=True)
    return [topic for topic in topics if topic.name not in found]


async def alter_topics(settings: Settings, topics: Collection[Topic] = ()) -> None:
    """Configure these topics, by default all, as they need it; keep all other configuration."""
    topics = topics or list(Topics(settings))
    async with connected_admin(settings) as admin:
        wrong = misconfigured(topics, await find_topics(admin, topics))
        if not wrong:
            return
        await _check_rights(settings, wrong, Operation.ALTER_CONFIGS)
        (response,) = await admin.alter_configs(
            [
                ConfigResource(
                    ConfigResourceType.TOPIC,
                    topic.name,
                    {**await topic_overrides(admin, topic.name), **topic.config},
                )
                for topic in wrong
            ]
        )
        for error_code, message, _, name in response.resources:
            if error_code:
                raise Refused(f"Kafka does not configure {name}: {why(error_code, message)}")
        while True:
            if not misconfigured(wrong, await find_topics(admin, wrong)):
                return
            await asyncio.sleep(POLL_SECONDS)


async def delete_topics(settings: Settings, names: Collection[str]) -> None:
    """Delete those of the topics that exist; they are gone on return."""
    await describe_topics(settings, [Need(name, Operation.DELETE) for name in names])
    async with connected_admin(settings) as admin:
        existing = set(names) & set(await admin.list_topics())
        if not existing:
            return
        response = await admin.delete_topics(sorted(existing))
        for name, error_code, *message in response.topic_error_codes:
            if error_code and error_code != UnknownTopicOrPartitionError.errno:
                reason = why(error_code, message[0] if message else None)
                raise Refused(f"Kafka does not delete {name}: {reason}")
        while True:
            if not existing & set(await admin.list_topics()):
                return
            await asyncio.sleep(POLL_SECONDS)


async def _check_rights(settings: Settings, topics: Iterable[Topic], operation: Operation) -> None:
    """Raise `MissingRights` unless this client may do the operation on existing topics."""
    await describe_topics(settings, [Need(topic.name, operation) for topic in topics])


async def _create(
    admin: AIOKafkaAdminClient,
    settings: Settings,
    topics: Collection[Topic],
    *,
    validate_only: bool,
) -> list[Topic]:
    """Create the topics, or only check that they can be; returns those that already exist."""
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
    existing = set()
    for name, error_code, message in response.topic_errors:
        if error_code == TopicAlreadyExistsError.errno:
            existing.add(name)
        elif error_code in NOT_AUTHORIZED:
            raise MayNotCreate(name, settings)
        elif error_code:
            raise Refused(f"Kafka does not create {name}: {why(error_code, message)}")
    return [topic for topic in topics if topic.name in existing]


async def _wait_and_check(admin: AIOKafkaAdminClient, topics: Collection[Topic]) -> None:
    """Wait until all of these new topics exist and have leaders, then check them."""
    while topics:
        found = await find_topics(admin, topics)
        if len(found) == len(topics) and all(topic.has_leaders for topic in found.values()):
            check_found(topics, found)
            return
        await asyncio.sleep(POLL_SECONDS)


# The size of topics: their partitions, and the records in them.


async def partitions_of(settings: Settings, topic: str, operation: Operation) -> int:
    """How many partitions a topic has, for a client that is about to read or write it.

    Raises `KafkaUnreachable`, `MissingTopic` or `MissingRights`.
    """
    found = await describe_topics(settings, [Need(topic, operation)])
    if topic not in found:
        raise MissingTopic(topic, settings)
    return found[topic].partitions


class Extent(NamedTuple):
    """The first offset of a partition, and the offset after its last."""

    begin: int
    end: int


Extents = dict[TopicPartition, Extent]


async def extents(settings: Settings, topics: Iterable[str]) -> Extents:
    """Return the extents of all partitions of these topics; missing topics are left out."""
    found = await describe_topics(settings, [Need(name, Operation.DESCRIBE) for name in topics])
    partitions = [
        TopicPartition(name, number)
        for name, topic in found.items()
        for number in range(topic.partitions)
    ]
    if not partitions:
        return {}
    async with connected(new_consumer(settings), settings) as asking:
        return await extents_of(asking, partitions)


async def extents_of(asking: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> Extents:
    """Return the extents of these partitions, on a connection that stays open."""
    begins = await asking.beginning_offsets(partitions)
    ends = await asking.end_offsets(partitions)
    return {tp: Extent(begins[tp], ends[tp]) for tp in partitions}


async def delete_records(settings: Settings, found: Extents) -> None:
    """Delete the records before the ends of these extents."""
    places = {tp: RecordsToDelete(before_offset=extent.end) for tp, extent in found.items()}
    async with connected_admin(settings) as admin:
        await admin.delete_records(places)


async def records_in(settings: Settings, topic: str) -> int:
    """About how many records a topic has; 0 if it does not exist.

    Compaction and transaction markers make it fewer than the offsets counted here.
    """
    return sum(end - begin for begin, end in (await extents(settings, [topic])).values())


async def expired_from(settings: Settings, topic: Topic) -> int:
    """How many of a topic's first records retention has removed."""
    found = await extents(settings, [topic.name])
    return sum(_starts(topic, {tp: extent.begin for tp, extent in found.items()}).values())


def _starts(topic: Topic, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the starts of the project's partitions: a recount has emptied those added."""
    return {tp: start for tp, start in starts.items() if tp.partition < topic.partitions}


# Whether Kafka keeps the labels, the only records that cannot be recomputed.


class LabelsKept(NamedTuple):
    """What is wrong with the labels topic, and how many of its first labels Kafka has removed.

    `expired` counts only if the project keeps labels forever; of them, and of those that the
    project's own retention removes, `uncounted` were removed before they were counted.
    """

    topic: str
    wrong: Sequence[Mismatch] = ()
    expired: int = 0
    uncounted: int = 0

    @property
    def warnings(self) -> list[str]:
        """A line for each problem.

        >>> for line in LabelsKept("sbic.labels", expired=1200, uncounted=3).warnings:
        ...     print(line)
        1,200 labels have expired from sbic.labels: a recount cannot count them again
        3 labels have expired from sbic.labels before they were counted
        """
        lines = [
            f"{mismatch}: Kafka removes labels that the project keeps; restore it, or change the "
            "project with: sbic project set labels_retention_hours=HOURS"
            for mismatch in self.wrong
        ]
        if self.expired:
            lines.append(
                f"{self.expired:,} labels have expired from {self.topic}: a recount cannot count "
                "them again"
            )
        if self.uncounted:
            lines.append(
                f"{self.uncounted:,} labels have expired from {self.topic} before they were counted"
            )
        return lines


def labels_kept(
    topic: Topic,
    wrong: Sequence[Mismatch],
    starts: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
) -> LabelsKept:
    """Compare the start of each partition of labels with what the group has counted."""
    starts = _starts(topic, starts)
    is_forever = topic.kept == "forever"
    return LabelsKept(
        topic.name,
        wrong,
        sum(starts.values()) if is_forever else 0,
        # a recount begins at 0, and asks before it leaves out what has expired
        sum(max(0, start - committed[tp]) for tp, start in starts.items() if committed.get(tp)),
    )


async def wrong_labels_config(admin: AIOKafkaAdminClient, topic: Topic) -> list[Mismatch]:
    """How the retention or compaction of the labels topic differs from the project's."""
    found = await find_topics(admin, [topic])
    return [
        Mismatch(topic.name, f"{name}={config[name]}", topic.config[name])
        for config in (each.config for each in found.values())
        for name in sorted(topic.watched)
        if config.get(name, topic.config[name]) != topic.config[name]
    ]
