"""Opens a project: applies its settings, and refuses others that were given."""

from typing import NamedTuple

from pipeline.kafka.admin import ensure_topics
from pipeline.kafka.connection import connected
from pipeline.kafka.topic_ids import TopicIds
from pipeline.project.differences import differences
from pipeline.project.errors import Conflict, Refusal, ReplacedTopics, Unfinished
from pipeline.project.given import Given
from pipeline.project.log import append, read_project
from pipeline.project.revision import Revision, project_settings
from pipeline.settings import Settings
from pipeline.topics import Topic, Topics


class Opened(NamedTuple):
    """A project with its settings in force; `created` are the topics that were missing."""

    settings: Settings
    revision: Revision
    created: list[Topic]


async def open_project(given: Given) -> Opened:
    """Open the project for an instance; create the project or its missing topics.

    The project may be in any state: an instance has to wait until it is `ready`. Raises `Refusal`,
    `ReplacedTopics` and the errors of `ensure_topics`.
    """
    revision = await read_project(given.place)
    created: list[Topic] = []
    if revision is None:
        created = await ensure_topics(given.settings)
        revision = await _create(given.settings)
    settings = settings_of(revision, given)
    if revision.state == "ready":
        await check_topic_ids(settings, revision)
        created += await ensure_topics(settings)
    return Opened(settings, revision, created)


async def settings_in_project(given: Given) -> Settings:
    """The settings for a tool: those of the project, or those given if it does not exist yet.

    Raises `Refusal`, and `Unfinished` if records sent now would be deleted.
    """
    revision = await read_project(given.place)
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


def compare_topics(prefix: str, revision: Revision, found: dict[str, str]) -> None:
    """The same, for ids that were already read."""
    missing = [name for name in revision.topics if name not in found]
    other = [name for name, old in revision.topics.items() if found.get(name, old) != old]
    if missing or other:
        raise ReplacedTopics(prefix, missing, other)


async def _create(settings: Settings) -> Revision:
    """Publish the first revision, unless another process was faster; returns the one in force."""
    revision = Revision(1, project_settings(settings), await topic_ids(settings))
    try:
        await append(settings, revision)
    except Conflict:
        found = await read_project(settings)
        if found is None:
            raise
        return found
    return revision
