"""Opens a project: reads its log, applies its settings, and refuses others that were given."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from secrets import token_bytes
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from sbic.kafka.admin import connected_admin, ensure_topics, extents
from sbic.kafka.connect import connected, new_consumer, new_producer
from sbic.kafka.errors import ClusterError
from sbic.kafka.protocol import TopicIds, describe_topics
from sbic.kafka.reader import Reader
from sbic.kafka.rights import Need, Operation
from sbic.project.revision import (
    Given,
    Revision,
    differences,
    encode_revision,
    last_revision,
    project_settings,
)
from sbic.project.settings import Settings, is_name
from sbic.project.topics import Topic, Topics
from sbic.wire.seal import KEY_BYTES, Seal, key_id


class Refusal(ClusterError):
    """A line for each thing that is wrong, and what to do about all of them."""

    def __init__(self, lines: Sequence[str], way_out: str) -> None:
        super().__init__("; ".join([*lines, way_out]))
        self.lines = lines
        self.way_out = way_out


class NoProject(ClusterError):
    """There is no project with this prefix."""

    def __init__(self, prefix: str, addresses: Sequence[str]) -> None:
        super().__init__(
            f"Kafka at {', '.join(addresses)} has no project {prefix}; "
            f"create it with: sbic topics --prefix {prefix}"
        )


class Unfinished(ClusterError):
    """A command that recreates topics was started, and has not finished."""

    def __init__(self, prefix: str, state: str) -> None:
        command = {
            "recounting": "recount",
            "rotating": "recount --new-key",
            "resetting": "reset",
            "deleting": "delete",
        }[state]
        super().__init__(
            f"the project {prefix} is {state}: wait until that is done, or, if the command was "
            f"interrupted, complete it with: sbic project {command} --prefix {prefix}"
        )


class ReplacedTopics(ClusterError):
    """Topics are not those that the project was created with."""

    def __init__(self, prefix: str, missing: Iterable[str], other: Iterable[str]) -> None:
        self.other = list(other)
        found = [
            *(f"{name} was deleted" for name in missing),
            *(f"{name} was deleted and recreated" for name in self.other),
        ]
        super().__init__(
            f"{', '.join(found)}, not by sbic: nothing is counted until everything is recomputed "
            f"from labels and tasks with: sbic project recount --prefix {prefix}"
        )


class NoKey(ClusterError):
    """The key that seals the records of instances is missing."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            f"{Topics(settings).seal.name} has no key of the project {settings.prefix}: it was "
            "deleted, or an earlier version of sbic has created the project. No label is lost: "
            f"make a key with: sbic project recount --new-key --prefix {settings.prefix}"
        )


DERIVED = ("answers", "votes", "evidence", "estimates", "posteriors", "workers", "dead-letters")
"""The topics that are computed from the others; a recount recreates them."""


class AddedPartitions(ClusterError):
    """Somebody has added partitions to topics of the project."""

    def __init__(self, prefix: str, topic: str, has: int, needs: int) -> None:
        what = topic.removeprefix(f"{prefix}.")
        way_out = (
            f"write the labels to a file with: sbic export labels --prefix {prefix} -o labels.csv; "
            f"create another project with: sbic topics --prefix NAME --partitions {has}; "
            "and send it the labels with: sbic replay labels.csv --prefix NAME"
        )
        if what in DERIVED:
            way_out = f"recreate the topic with: sbic project recount --prefix {prefix}"
        super().__init__(
            f"{topic} has {has} partitions, the project {prefix} has {needs}: somebody has added "
            "partitions, and Kafka cannot remove them. Nothing is counted here any more, and no "
            f"label is lost: {way_out}"
        )


class Conflict(ClusterError):
    """Another command has changed the project at the same time."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"another command has just changed the project {prefix}: check it with "
            f"sbic project show --prefix {prefix}, and try again"
        )


# The project topic: reads the revisions of a project, and appends new ones.


async def read_project(settings: Settings) -> Revision | None:
    """The last revision of the project, or None if there is no project with this prefix."""
    topic = Topics(settings).project.name
    # a consumer would create a missing topic
    if not await describe_topics(settings, [Need(topic, Operation.READ)]):
        return None
    async with connected(log_consumer(settings), settings) as consumer:
        return await read_on(consumer, TopicPartition(topic, 0), None)


def log_consumer(settings: Settings) -> AIOKafkaConsumer:
    """A consumer for `read_on`."""
    return new_consumer(settings, client_id=f"{settings.prefix}-project")


async def read_on(
    consumer: AIOKafkaConsumer, place: TopicPartition, before: Revision | None
) -> Revision | None:
    """The last revision, reading from the consumer's position to the current end."""
    if place not in consumer.assignment():
        consumer.assign([place])
    reader = Reader(consumer, [place], await consumer.end_offsets([place]))
    last = before
    async for records in reader.to_the_end():
        last = last_revision((record.value for record in records), last)
    return last


async def append(settings: Settings, revision: Revision) -> None:
    """Publish a revision; raises `Conflict` if another one with this number came first."""
    topic = Topics(settings).project.name
    await describe_topics(settings, [Need(topic, Operation.WRITE)])
    async with connected(new_producer(settings), settings) as producer:
        await producer.send_and_wait(topic, encode_revision(revision), partition=0)
    if await read_project(settings) != revision:
        raise Conflict(settings.prefix)


# The keys of a project, one in force: instances seal their records with it.


async def make_key(settings: Settings) -> str:
    """Append a new key to the seal topic; return its id, for the next revision."""
    key = token_bytes(KEY_BYTES)
    topic = Topics(settings).seal.name
    await describe_topics(settings, [Need(topic, Operation.WRITE)])
    async with connected(new_producer(settings), settings) as producer:
        await producer.send_and_wait(topic, key.hex().encode(), partition=0)
    return key_id(key)


async def read_seal(settings: Settings, revision: Revision) -> Seal:
    """The seal with the key that a revision names; raises `NoKey`."""
    topic = Topics(settings).seal.name
    if not await describe_topics(settings, [Need(topic, Operation.READ)]):
        raise NoKey(settings)
    place = TopicPartition(topic, 0)
    keys: dict[str, bytes] = {}
    async with connected(new_consumer(settings), settings) as consumer:
        consumer.assign([place])
        reader = Reader(consumer, [place], await consumer.end_offsets([place]))
        async for records in reader.to_the_end():
            for record in records:
                with suppress(ValueError):
                    key = bytes.fromhex((record.value or b"").decode())
                    keys[key_id(key)] = key
    if revision.seal not in keys:
        raise NoKey(settings)
    return Seal(keys[revision.seal], keys.values())


# Opens a project: applies its settings, and refuses others that were given.


class Opened(NamedTuple):
    """A project with its settings in force; `created` are the topics that were missing."""

    settings: Settings
    revision: Revision
    created: list[Topic]


async def open_project(given: Given) -> Opened:
    """Open the project for an instance; create the project or its missing topics.

    The project may be in any state: an instance has to wait until it is `ready`. Raises `Refusal`,
    `ReplacedTopics`, `AddedPartitions` and the errors of `ensure_topics`.
    """
    revision = await read_project(given.place)
    created: list[Topic] = []
    if revision is None:
        created = await ensure_topics(given.settings)
        revision = await _create(given.settings)
    settings = settings_of(revision, given)
    if revision.state == "ready":
        await check_topic_ids(settings, revision)
        await check_partitions(settings)
        created += await ensure_topics(settings)
    return Opened(settings, revision, created)


async def settings_in_project(given: Given, *, may_have_more_partitions: bool = False) -> Settings:
    """The settings for a tool: those of the project, or those given if it does not exist yet.

    Raises `Refusal`, `AddedPartitions`, and `Unfinished` if records sent now would be deleted.
    """
    revision = await read_project(given.place)
    settings = settings_at(revision, given)
    if revision is not None and not may_have_more_partitions:
        await check_partitions(settings)
    return settings


def settings_at(revision: Revision | None, given: Given) -> Settings:
    """The same, for a revision that was already read; None if there is no project yet."""
    if revision is None:
        return given.settings
    if revision.state in ("resetting", "deleting"):
        raise Unfinished(given.place.prefix, revision.state)
    return settings_of(revision, given)


def settings_of(revision: Revision, given: Given) -> Settings:
    """The settings in force; raises `Refusal` with a line for each that was given otherwise."""
    found = differences(revision, given)
    if found:
        way_out = "leave out what differs, or choose another --prefix"
        raise Refusal(list(map(str, found)), f"the project was not changed: {way_out}")
    return Settings(**{**given.values, **revision.settings}, security=given.security)


async def topic_ids(settings: Settings) -> dict[str, str]:
    """The ids of all topics of the project that exist."""
    async with connected(TopicIds(settings), settings) as ids:
        return await ids.find([topic.name for topic in Topics(settings)])


async def check_topic_ids(settings: Settings, revision: Revision) -> None:
    """Raise `ReplacedTopics` if a topic is not the one that the project was created with."""
    compare_topics(settings.prefix, revision, await topic_ids(settings))


async def check_partitions(settings: Settings, without: Iterable[Topic] = ()) -> None:
    """Raise `AddedPartitions` if a topic has more partitions than the project.

    A topic that this client must not describe has none to it.
    """
    topics = {topic.name: topic for topic in Topics(settings) if topic not in without}
    async with connected(TopicIds(settings), settings) as client:
        found = await client.describe(topics)
    for name, described in found.items():
        if described.partitions > (needs := topics[name].partitions):
            raise AddedPartitions(settings.prefix, name, described.partitions, needs)


def compare_topics(prefix: str, revision: Revision, found: dict[str, str]) -> None:
    """The same, for ids that were already read."""
    missing = [name for name in revision.topics if name not in found]
    other = [name for name, old in revision.topics.items() if found.get(name, old) != old]
    if missing or other:
        raise ReplacedTopics(prefix, missing, other)


async def _create(settings: Settings) -> Revision:
    """Publish the first revision, unless another process was faster; returns the one in force."""
    key = await make_key(settings)
    revision = Revision(1, project_settings(settings), await topic_ids(settings), seal=key)
    try:
        await append(settings, revision)
    except Conflict:
        found = await read_project(settings)
        if found is None:
            raise
        return found
    return revision


# The projects on a cluster.


ENDING = ".project"


class Listed(NamedTuple):
    """A project, and how many labels it has."""

    prefix: str
    revision: Revision
    labels: int


async def projects(place: Settings) -> list[Listed]:
    """All projects on this cluster, sorted by prefix."""
    async with connected_admin(place) as admin:
        names = sorted(await admin.list_topics())
    revisions: dict[str, Revision] = {}
    for name in names:
        prefix = name.removesuffix(ENDING)
        if name.endswith(ENDING) and is_name(prefix):
            async with connected(log_consumer(place), place) as consumer:
                revision = await read_on(consumer, TopicPartition(name, 0), None)
            if revision is not None:
                revisions[prefix] = revision
    topics = {prefix: Topics(replace(place, prefix=prefix)).labels.name for prefix in revisions}
    found = await extents(place, topics.values())
    return [
        Listed(
            prefix,
            revision,
            sum(end - begin for tp, (begin, end) in found.items() if tp.topic == topics[prefix]),
        )
        for prefix, revision in revisions.items()
    ]
