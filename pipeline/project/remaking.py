"""Makes the topics of a project again, or deletes them; begun once, it can always be completed.

The project topic says what is under way. Instances see that within a second, leave, and wait until
it is `ready` again. Every step can be done twice, so a command that was killed is completed by the
same command.
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

ALONE_SECONDS = 3.0  # longer than it takes an instance that is just starting to see the revision
NOTE_SECONDS = 10.0

MAY_FOLLOW: dict[State, tuple[State, ...]] = {
    "recounting": ("ready",),
    "resetting": ("ready", "recounting"),
    "deleting": ("ready", "recounting", "resetting"),
}

Note = Callable[[str], None]


async def existing_project(place: Settings) -> Revision:
    """The project, or `NoProject`."""
    revision = await read_project(place)
    if revision is None:
        raise NoProject(place.prefix, place.bootstrap_servers)
    return revision


async def begin(place: Settings, state: State, **changes: Any) -> Revision:
    """Write down that this is under way; if it was before, and was not completed, it goes on."""
    revision = await existing_project(place)
    if revision.state == state and not changes:
        return revision
    if revision.state not in MAY_FOLLOW[state]:
        raise Unfinished(place.prefix, revision.state)
    await check_role(place, "operator")
    begun = revision.next(state=state, **changes)
    settings = begun.apply_to(place)
    if state != "deleting":  # what stays has to be right before the rest is thrown away
        await check_topics(settings, without=made_again(settings, state))
    await append(place, begun)
    return begun


async def make_again(place: Settings, begun: Revision, note: Note) -> Revision:
    """Throw away what the state says, create it again, and let instances begin from the start."""
    settings = begun.apply_to(place)
    await until_alone(settings, note)
    if await read_project(place) != begun:
        raise Conflict(place.prefix)  # the same command was completed elsewhere
    await delete_topics(settings, [topic.name for topic in made_again(settings, begun.state)])
    await ensure_topics(settings)
    ids = await topic_ids(settings)
    kept = {name for name, found in ids.items() if begun.topics.get(name) == found}
    read_again = {Topics(settings).labels.name, Topics(settings).tasks.name}
    await commit_zero(settings, (ids.keys() - kept) | read_again)
    ready = begun.next(state="ready", topics=ids)
    await append(settings, ready)
    return ready


def made_again(settings: Settings, state: State) -> list[Topic]:
    """The topics that a state throws away: what is made of labels and tasks, or labels as well.

    Dead letters go too: labels and tasks that cannot be used make them again.

    >>> [topic.name for topic in made_again(Settings(prefix="a"), "resetting")][-3:]
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
    """Delete the topics and the group; the topic that says so goes last."""
    settings = begun.apply_to(place)
    await until_alone(settings, note)
    *others, project = [topic.name for topic in Topics(settings)]
    await delete_topics(settings, others)
    await delete_group(settings)
    await delete_topics(settings, [project])


async def until_alone(settings: Settings, note: Note) -> None:
    """Wait until the group has had no members for a while: all instances have left."""
    begun = alone_since = monotonic()
    noted = False
    while monotonic() - alone_since < ALONE_SECONDS:
        members = await group_members(settings)
        if members:
            alone_since = monotonic()
        if members and not noted and monotonic() - begun > NOTE_SECONDS:
            noted = True
            note(f"waiting until {members} instances have left: one that hangs is put out soon")
        await asyncio.sleep(0.1)
