"""Changes of a project: settings, and topics recreated or deleted; counting is followed."""

import asyncio
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from time import monotonic
from typing import Any, NamedTuple

from sbic.classes import Classes
from sbic.foreign import shown
from sbic.infer.registry import ALGORITHMS, default_algorithm
from sbic.kafka.admin import Extents, check_topics, delete_topics, ensure_topics, extents
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import commit_zero, committed_offsets, delete_group, group_members
from sbic.kafka.protocol import check_role
from sbic.progress import progress
from sbic.project.opening import (
    DERIVED,
    Conflict,
    NoProject,
    Unfinished,
    append,
    check_partitions,
    make_key,
    read_project,
    topic_ids,
)
from sbic.project.revision import PROJECT_SETTINGS, Revision, State, project_settings
from sbic.project.settings import SPECS, Settings, read_setting
from sbic.project.topics import Topic, Topics

FIXED = ("partitions", "replication")
OF_THE_PAST = ("classes", "algorithm", "alpha", "beta", "prior", "class_prior", "repeats")
"""Settings whose change invalidates everything computed from the labels."""


class BadChange(ClusterError):
    """The project cannot be changed in this way."""


class Change(NamedTuple):
    """The new settings, the names of those that differ, and whether a recount is needed.

    `names` is empty if nothing differs.
    """

    settings: dict[str, Any]
    names: tuple[str, ...]
    needs_recount: bool


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse arguments of the form `NAME=VALUE`.

    >>> read_assignments(["alpha=3", "lease-seconds=60"])
    {'alpha': '3', 'lease_seconds': '60'}
    >>> read_assignments(["alfa=3"])
    Traceback (most recent call last):
    sbic.project.changes.BadChange: alfa is not a setting of a project: did you mean alpha?
    """
    found: dict[str, str] = {}
    for text in texts:
        written, equals, value = text.partition("=")
        name = written.strip().replace("-", "_").lower()
        if not equals:
            raise BadChange(f"{shown(text)} is not NAME=VALUE, say alpha=3")
        if name not in PROJECT_SETTINGS:
            raise BadChange(_no_setting(written.strip(), name))
        if name in found:
            raise BadChange(f"{name} is given twice")
        found[name] = value.strip()
    return found


def _no_setting(written: str, name: str) -> str:
    if name in SPECS:
        flag = "--" + name.replace("_", "-")
        return f"{written} is a setting of each instance, not of the project: set it with {flag}"
    near = get_close_matches(name, PROJECT_SETTINGS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(PROJECT_SETTINGS)}"
    return f"{written} is not a setting of a project: {hint}"


def change(revision: Revision, texts: dict[str, str], *, has_labels: bool) -> Change:
    """The change that these values make to the project; raises `BadChange` or `BadSetting`.

    >>> from sbic.project.revision import FIRST
    >>> change(FIRST, {"policy": "uniform"}, has_labels=True)[1:]
    (('policy',), False)
    >>> pets = change(FIRST, {"classes": "cat,dog"}, has_labels=False)
    >>> pets.names, pets.needs_recount, pets.settings["algorithm"]
    (('classes', 'algorithm', 'class_prior'), True, 'settled')
    """
    before = revision.settings
    given = {name: read_setting(name, text) for name, text in texts.items()}
    for name in FIXED:
        if given.get(name, before[name]) != before[name]:
            raise BadChange(_fixed(name, before[name]))
    if has_labels and "classes" in given:
        _check_added(Classes.parse(before["classes"]), Classes.parse(given["classes"]))
    settings = project_settings(Settings(**_adjusted({**before, **given}, given)))
    names = tuple(name for name in PROJECT_SETTINGS if settings[name] != before[name])
    return Change(settings, names, bool(set(names) & set(OF_THE_PAST)))


def _adjusted(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The settings, with those replaced that no longer fit and were not given."""
    found = dict(settings)
    signs = Classes.parse(found["classes"]).is_signs
    if "classes" in given and "algorithm" not in given and not signs:
        found["algorithm"] = default_algorithm(signs)
    settles = ALGORITHMS[found["algorithm"]].settles
    if settles and "prior" not in given:
        found["prior"] = SPECS["prior"].default
    if not settles and "class_prior" not in given:
        found["class_prior"] = None
    return found


def _fixed(name: str, value: object) -> str:
    if name == "replication":
        return (
            f"replication is {value}: change the number of replicas with Kafka's own "
            "kafka-reassign-partitions"
        )
    return (
        f"partitions is {value} and cannot be changed: create a project with another number under "
        "another --prefix (sbic topics --partitions N), and send it the labels"
    )


def _check_added(old: Classes, new: Classes) -> None:
    if new.names[: len(old)] != old.names or (old.is_signs and new != old):
        raise BadChange(
            f"the project has labels of the classes {','.join(old.names)}: "
            + ("names can only be added at the end" if not old.is_signs else "they cannot change")
            + "; choose another --prefix for others, or delete the labels with sbic project reset"
        )


# Follows the progress of instances in counting the labels of a project.


LOOK_SECONDS = 0.5


class Count(NamedTuple):
    """The number of labels, and how many of them are counted in posteriors."""

    labels: int
    counted: int

    @property
    def is_complete(self) -> bool:
        """Whether all labels are counted."""
        return self.counted == self.labels


async def follow_counting(settings: Settings, patience: float) -> Count:
    """Show a bar until all labels are counted; give up after `patience` without an instance."""
    seen = monotonic()
    count = await count_of(settings)
    with progress("Counting", total=count.labels) as advance:
        shown = 0
        while not count.is_complete:
            if await group_members(settings):
                seen = monotonic()
            elif monotonic() - seen > patience:
                break
            await asyncio.sleep(LOOK_SECONDS)
            count = await count_of(settings)
            advance(count.counted - shown)
            shown = count.counted
    return count


async def count_of(settings: Settings) -> Count:
    """The labels processed so far; at most all but one while votes are in flight."""
    labels, votes = Topics(settings).labels.name, Topics(settings).votes.name
    found = await extents(settings, [labels, votes])
    all_labels, processed = await _offsets(settings, labels, found)
    all_votes, counted = await _offsets(settings, votes, found)
    in_flight = counted != all_votes
    return Count(all_labels, min(processed, all_labels - 1) if in_flight else processed)


async def _offsets(settings: Settings, topic: str, found: Extents) -> tuple[int, int]:
    """How many records a topic has, and how many of them the group has committed."""
    committed = await committed_offsets(settings, settings.prefix, topic)
    of_topic = {tp.partition: extent for tp, extent in found.items() if tp.topic == topic}
    total = sum(end - begin for begin, end in of_topic.values())
    done = sum(
        max(0, min(committed.get(partition, 0), end) - begin)
        for partition, (begin, end) in of_topic.items()
    )
    return total, done


# Recreates the topics of a project, or deletes them; once begun, it can always be completed.
#
# The state in the project topic says what is being done. Instances notice it within a second, leave
# the group, and wait until the state is `ready` again. Every step can be repeated, so a command
# that was killed is completed by running it again.


EMPTY_SECONDS = 3.0  # longer than a starting instance takes to see the revision
NOTE_SECONDS = 10.0

MAY_FOLLOW: dict[State, tuple[State, ...]] = {
    "recounting": ("ready",),
    "rotating": ("ready", "recounting"),
    "resetting": ("ready", "recounting", "rotating"),
    "deleting": ("ready", "recounting", "rotating", "resetting"),
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
        recreated = topics_to_recreate(settings, state)
        await check_partitions(settings, without=recreated)
        await check_topics(settings, without=recreated)
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
    rotates = begun.state == "rotating" or not begun.seal
    key = await make_key(settings) if rotates else begun.seal
    ready = begun.next(state="ready", topics=ids, seal=key)
    await append(settings, ready)
    return ready


def topics_to_recreate(settings: Settings, state: State) -> list[Topic]:
    """The topics that are recreated in a state: those computed from labels, or labels as well.

    A new key makes the old assignments worthless, too.
    Dead letters are included: bad labels and tasks produce them again.

    >>> [topic.name for topic in topics_to_recreate(Settings(prefix="a"), "resetting")][-3:]
    ['a.labels', 'a.requests', 'a.assignments']
    """
    topics = Topics(settings)
    names = [f"{settings.prefix}.{name}" for name in DERIVED]
    derived = [topic for topic in topics if topic.name in names]
    if state == "recounting":
        return derived
    if state == "rotating":
        return [*derived, topics.assignments]
    return [*derived, topics.labels, topics.requests, topics.assignments]


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
