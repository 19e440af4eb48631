"""Opens a project: reads its log, and applies its settings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from secrets import token_bytes
from typing import NamedTuple

from aiokafka import TopicPartition

from sbic.kafka.admin import connected_admin, ensure_topics, extents
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.errors import ClusterError
from sbic.kafka.protocol import TopicIds, describe_topics
from sbic.kafka.reader import Reader
from sbic.kafka.rights import Need, Operation
from sbic.kafka.writer import writing
from sbic.project.added import check_partitions
from sbic.project.revision import (
    Difference,
    Given,
    Revision,
    differences,
    encode_revision,
    last_revision,
    project_settings,
)
from sbic.project.settings import Settings, is_name
from sbic.project.topics import Topic, Topics
from sbic.wire.partitions import Row
from sbic.wire.seal import KEY_BYTES, Seal, key_id, read_key


class RefusedSettings(ClusterError):
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
            "copying": "copy",
        }[state]
        way = f"copy OLD {prefix}" if command == "copy" else f"{command} --prefix {prefix}"
        super().__init__(
            f"the project {prefix} is {state}: wait until that is done, or, if the command was "
            f"interrupted, complete it with: sbic project {way}"
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


class Conflict(ClusterError):
    """Another command has changed the project at the same time."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"another command has just changed the project {prefix}: check it with "
            f"sbic project show --prefix {prefix}, and try again"
        )


# The project topic: reads the revisions of a project, and appends new ones.


async def read_project(settings: Settings) -> Revision | None:
    """Return the last revision of the project, or None if there is no project with this prefix."""
    topic = Topics(settings).project.name
    # a consumer would create a missing topic
    if not await describe_topics(settings, [Need(topic, Operation.READ)]):
        return None
    async with connected(ProjectLog(settings), settings) as log:
        return await log.read()


async def existing_project(place: Settings) -> Revision:
    """Return the last revision of the project; raise `NoProject`."""
    revision = await read_project(place)
    if revision is None:
        raise NoProject(place.prefix, place.bootstrap_servers)
    return revision


class ProjectLog:
    """The project topic of a project that exists, on a connection that stays open."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.last: Revision | None = None
        self.consumer = new_consumer(settings, client_id=f"{settings.prefix}-project")
        self._place = TopicPartition(Topics(settings).project.name, 0)

    async def start(self) -> None:
        await self.consumer.start()
        self.consumer.assign([self._place])

    async def stop(self) -> None:
        await self.consumer.stop()

    async def read(self) -> Revision | None:
        """Return the last revision, with what was appended since the last call."""
        ends = await self.consumer.end_offsets([self._place])
        async for records in Reader(self.consumer, [self._place], ends).to_the_end():
            self.last = last_revision((record.value for record in records), self.last)
        return self.last


async def append(settings: Settings, revision: Revision) -> None:
    """Publish a revision; raises `Conflict` if another one with this number came first."""
    await _publish(settings, Topics(settings).project, encode_revision(revision))
    if await read_project(settings) != revision:
        raise Conflict(settings.prefix)


# The keys of a project, one in force: instances seal their records with it.


async def make_key(settings: Settings) -> str:
    """Append a new key to the seal topic; return its id, for the next revision."""
    key = token_bytes(KEY_BYTES)
    await _publish(settings, Topics(settings).seal, key.hex().encode())
    return key_id(key)


async def _publish(settings: Settings, topic: Topic, value: bytes) -> None:
    async with writing(settings, topic) as writer:
        await writer.send(topic.name, [Row(None, value)], partition=0)


async def read_seal(settings: Settings, revision: Revision) -> Seal:
    """Return the seal with the key that a revision names; raise `NoKey`."""
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
                if (key := read_key(record.value)) is not None:
                    keys[key_id(key)] = key
    if revision.seal not in keys:
        raise NoKey(settings)
    return Seal(keys[revision.seal], keys.values())


# Opens a project: its settings stand, whatever others were given.


class Opened(NamedTuple):
    """A project with its settings in force.

    `created` are the topics that were missing, `differences` the settings given with other values:
    the project's are in force.
    """

    settings: Settings
    revision: Revision
    created: list[Topic]
    differences: list[Difference]


async def open_project(given: Given) -> Opened:
    """Open the project for an instance; create the project or its missing topics.

    The settings given are for a new project: those of an existing one stand. The project may be in
    any state: an instance has to wait until it is `ready`. Raises `ReplacedTopics`,
    `AddedPartitions` and the errors of `ensure_topics`.
    """
    revision = await read_project(given.place)
    created: list[Topic] = []
    if revision is None:
        created = await ensure_topics(given.settings)
        revision = await _create(given.settings)
    settings = settings_in_force(revision, given)
    if revision.state == "ready":
        await check_topic_ids(settings, revision)
        await check_partitions(settings)
        created += await ensure_topics(settings, is_made=True)
    return Opened(settings, revision, created, differences(revision, given))


async def settings_in_project(given: Given, *, may_have_more_partitions: bool = False) -> Settings:
    """Get the settings for a tool: those of the project, or those given if it does not exist yet.

    Raises `RefusedSettings`, `AddedPartitions`, and `Unfinished` if what is sent now is deleted.
    """
    revision = await read_project(given.place)
    settings = settings_at(revision, given)
    if revision is not None and not may_have_more_partitions:
        await check_partitions(settings)
    return settings


def settings_at(revision: Revision | None, given: Given) -> Settings:
    """Return the same, for a revision that was already read; None if there is no project yet."""
    if revision is None:
        return given.settings
    if revision.state in ("resetting", "deleting", "copying"):
        raise Unfinished(given.place.prefix, revision.state)
    return settings_of(revision, given)


def settings_in_force(revision: Revision, given: Given) -> Settings:
    """Return the settings of the project, and those given that belong to the process."""
    return Settings(**{**given.values, **revision.settings}, security=given.security)


def settings_of(revision: Revision, given: Given) -> Settings:
    """Return the same; raise `RefusedSettings` with a line for each that was given otherwise."""
    found = differences(revision, given)
    if found:
        way_out = "leave out what differs, or choose another --prefix"
        raise RefusedSettings(list(map(str, found)), f"the project was not changed: {way_out}")
    return settings_in_force(revision, given)


async def topic_ids(settings: Settings) -> dict[str, str]:
    """Return the ids of all topics of the project that exist."""
    async with connected(TopicIds(settings), settings) as client:
        return await client.find([topic.name for topic in Topics(settings)])


async def check_topic_ids(settings: Settings, revision: Revision) -> None:
    """Raise `ReplacedTopics` if a topic is not the one that the project was created with."""
    compare_topics(settings.prefix, revision, await topic_ids(settings))


def compare_topics(prefix: str, revision: Revision, found: dict[str, str]) -> None:
    """Do the same for ids that were already read."""
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


class ListedProject(NamedTuple):
    """A project, and how many labels it has."""

    prefix: str
    revision: Revision
    labels: int


async def projects(place: Settings) -> list[ListedProject]:
    """All projects on this cluster, sorted by prefix."""
    async with connected_admin(place) as admin:
        names = sorted(await admin.list_topics())
    revisions: dict[str, Revision] = {}
    for name in names:
        prefix = name.removesuffix(ENDING)
        if name.endswith(ENDING) and is_name(prefix):
            async with connected(ProjectLog(replace(place, prefix=prefix)), place) as log:
                revision = await log.read()
            if revision is not None:
                revisions[prefix] = revision
    topics = {prefix: Topics(replace(place, prefix=prefix)).labels.name for prefix in revisions}
    found = await extents(place, topics.values())
    return [
        ListedProject(
            prefix,
            revision,
            sum(end - begin for tp, (begin, end) in found.items() if tp.topic == topics[prefix]),
        )
        for prefix, revision in revisions.items()
    ]
