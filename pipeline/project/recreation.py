"""Recreates the topics of a project, or deletes them; once begun, it can always be completed.

The state in the project topic says what is being done. Instances notice it within a second, leave
the group, and wait until the state is `ready` again. Every step can be repeated, so a command that
was killed is completed by running it again.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from pipeline.kafka.access.granted import check_role
from pipeline.kafka.admin import check_topics, delete_topics, ensure_topics
from pipeline.kafka.groups import commit_zero, delete_group, group_members
from pipeline.project.errors import Conflict, NoProject, Unfinished
from pipeline.project.log import append, read_project
from pipeline.project.opening import topic_ids
from pipeline.project.revision import Revision, State
from pipeline.settings import Settings
from pipeline.topics import Topic, Topics

EMPTY_SECONDS = 3.0  # longer than a starting instance takes to see the revision
NOTE_SECONDS = 10.0

MAY_FOLLOW: dict[State, tuple[State, ...]] = {
    "recounting": ("ready",),
    "resetting": ("ready", "recounting"),
    "deleting": ("ready", "recounting", "resetting"),
}

Note = Callable[[str], None]


async def existing_project(place: Settings) -> Revision:
    """The last revision of the project; raises `NoProject`."""
    revision = await read_project(place)
    if revision is None:
        raise NoProject(place.prefix, place.bootstrap_servers)
    return revision


async def begin(place: Settings, state: State, **changes: Any) -> Revision:
    """Publish the new state; if the project is already in it, continue from there."""
    revision = await existing_project(place)
    if revision.state == state and not changes:
        return revision
    if revision.state not in MAY_FOLLOW[state]:
        raise Unfinished(place.prefix, revision.state)
    await check_role(place, "operator")
    begun = revision.next(state=state, **changes)
    settings = begun.apply_to(place)
    if state != "deleting":  # check what stays before the rest is deleted
        await check_topics(settings, without=topics_to_recreate(settings, state))
    await append(place, begun)
    return begun


async def recreate_topics(place: Settings, begun: Revision, note: Note) -> Revision:
    """Recreate the topics of the state, and let instances read from the start."""
    settings = begun.apply_to(place)
    await until_group_is_empty(settings, note)
    if await read_project(place) != begun:
        raise Conflict(place.prefix)  # the same command was completed elsewhere
    await delete_topics(
        settings, [topic.name for topic in topics_to_recreate(settings, begun.state)]
    )
    await ensure_topics(settings)
    ids = await topic_ids(settings)
    kept = {name for name, found in ids.items() if begun.topics.get(name) == found}
    read_again = {Topics(settings).labels.name, Topics(settings).tasks.name}
    await commit_zero(settings, (ids.keys() - kept) | read_again)
    ready = begun.next(state="ready", topics=ids)
    await append(settings, ready)
    return ready


def topics_to_recreate(settings: Settings, state: State) -> list[Topic]:
    """The topics that are recreated in a state: those computed from labels, or labels as well.

    Dead letters are included: bad labels and tasks produce them again.

    >>> [topic.name for topic in topics_to_recreate(Settings(prefix="a"), "resetting")][-3:]
    ['a.labels', 'a.requests', 'a.assignments']
    """
    topics = Topics(settings)
    derived = [
        topics.answers,
        topics.votes,
        topics.evidence,
        topics.estimates,
        topics.posteriors,
        topics.workers,
        topics.dead_letters,
    ]
    given = [topics.labels, topics.requests, topics.assignments]
    return derived if state == "recounting" else [*derived, *given]


async def delete(place: Settings, begun: Revision, note: Note) -> None:
    """Delete the topics and the group; the project topic, which has the state, last."""
    settings = begun.apply_to(place)
    await until_group_is_empty(settings, note)
    *others, project = [topic.name for topic in Topics(settings)]
    await delete_topics(settings, others)
    await delete_group(settings)
    await delete_topics(settings, [project])


async def until_group_is_empty(settings: Settings, note: Note) -> None:
    """Wait until the group has had no members for `EMPTY_SECONDS`."""
    begun = empty_since = monotonic()
    noted = False
    while monotonic() - empty_since < EMPTY_SECONDS:
        members = await group_members(settings)
        if members:
            empty_since = monotonic()
        if members and not noted and monotonic() - begun > NOTE_SECONDS:
            noted = True
            note(
                f"waiting for {members} instances to leave the group: Kafka removes one that hangs"
            )
        await asyncio.sleep(0.1)
