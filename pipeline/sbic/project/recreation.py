"""Recreates the topics of a project, or deletes them; once begun, it can always be completed.

The state in the project topic says what is being done. Instances notice it within a second, leave
the group, and wait until the state is `ready` again. Every step can be repeated, so a command that
was killed is completed by running it again.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from secrets import token_bytes
from time import monotonic, time_ns
from typing import Any

from aiokafka import ConsumerRecord

from sbic.kafka.admin import (
    Extents,
    alter_topics,
    check_topics,
    connected_admin,
    delete_records,
    delete_topics,
    ensure_topics,
    extents,
    find_topics,
    mismatches,
)
from sbic.kafka.groups import commit_zero, committed_offsets, delete_group, group_members
from sbic.kafka.protocol import check_role
from sbic.kafka.reader import reading
from sbic.kafka.writer import writing
from sbic.project.added import empty_added
from sbic.project.opening import (
    Conflict,
    NoKey,
    Unfinished,
    append,
    existing_project,
    make_key,
    read_project,
    read_seal,
    topic_ids,
)
from sbic.project.revision import ProjectState, Revision
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import ID_MAX_BYTES, BadRecord
from sbic.wire.changelogs import Fact, Facts, encode_facts, read_facts
from sbic.wire.columns import COLUMNS, Columns
from sbic.wire.partitions import Row
from sbic.wire.posteriors import CLOSE_REASONS
from sbic.wire.seal import KEY_BYTES, Seal

EMPTY_SECONDS = 3.0  # longer than a starting instance takes to see the revision
NOTE_SECONDS = 10.0

MAY_FOLLOW: dict[ProjectState, tuple[ProjectState, ...]] = {
    "recounting": ("ready",),
    "rotating": ("ready", "recounting"),
    "resetting": ("ready", "recounting", "rotating"),
    "deleting": (
        "ready",
        "recounting",
        "rotating",
        "resetting",
        "copying",
        "repartitioning",
        "filling",
    ),
}

Note = Callable[[str], None]


async def begin(place: Settings, state: ProjectState, **changes: Any) -> Revision:
    """Publish the new state; if the project is already in it, continue from there."""
    revision = await existing_project(place)
    if revision.state == state and not changes:
        return revision
    if revision.state not in MAY_FOLLOW[state]:
        raise Unfinished(place.prefix, revision)
    await check_role(place, "operator")
    begun = revision.next(state=state, **changes)
    settings = begun.apply_to(place)
    if state != "deleting":  # check what stays before the rest is deleted
        await alter_topics(settings)  # of an earlier version, or altered by somebody
        await check_topics(settings, without=topics_to_recreate(settings, state))
    await append(place, begun)
    return begun


async def recreate_topics(
    place: Settings, begun: Revision, note: Note, *, reopens: bool = False
) -> Revision:
    """Recreate the topics of the state, and let instances read from the start.

    1. Records in partitions that somebody has added move to those of the project.
    2. How far tasks and roster were forwarded is noted: they are read again.
    3. A recount keeps closed what stop rules have closed, unless it `reopens` all of them.
    4. The topics are deleted, and created again; those that the project no longer has are deleted.
    5. Committed offsets begin at 0, and the project is ready.
    """
    settings = begun.apply_to(place)
    await until_group_is_empty(settings, note)
    if await read_project(place) != begun:
        raise Conflict(place.prefix)  # the same command was completed elsewhere
    topics = Topics(settings)
    recreated = topics_to_recreate(settings, begun.state)
    stay = [topic for topic in topics if topic.public and topic not in recreated]
    await empty_added(settings, await seal_of(settings, begun), stay, note)
    begun = await _with_forwarded(settings, begun)
    keeps = begun.state != "resetting" and not reopens and await _is_intact(settings)
    if begun.state == "rotating" or not begun.seal:
        begun = await _with_new_key(settings, begun, keeps=keeps)
    if keeps:
        await delete_records(settings, await keep_closed(settings, begun, begun))
        recreated.remove(topics.evidence)
    former = begun.topics.keys() - {topic.name for topic in topics}  # a setting needs them no more
    await delete_topics(settings, [*(topic.name for topic in recreated), *former])
    await ensure_topics(settings, is_made=True)
    ids = await topic_ids(settings)
    kept = {name for name, found in ids.items() if begun.topics.get(name) == found}
    inputs = {topics.labels.name, topics.tasks.name, topics.roster.name}
    await commit_zero(settings, (ids.keys() - kept) | inputs)
    ready = begun.next(state="ready", topics=ids)
    await append(settings, ready)
    return ready


async def _with_forwarded(settings: Settings, begun: Revision) -> Revision:
    """Note how far the group has read tasks and roster: misplaced ones before have a copy."""
    topics, ids = Topics(settings), await topic_ids(settings)
    found: dict[str, list[int]] = {}
    for topic in (topics.tasks, topics.roster):
        topic_id = ids.get(topic.name)
        if topic_id is None or topic_id != begun.topics.get(topic.name):
            continue  # the offsets are those of another topic
        known = begun.forwarded.get(topic_id, [0] * topic.partitions)
        committed = await committed_offsets(settings, settings.prefix, topic.name)
        found[topic_id] = [max(known[each], committed.get(each, 0)) for each in range(len(known))]
    if found == begun.forwarded:
        return begun
    after = begun.next(forwarded=found)
    await append(settings, after)
    return after


async def _with_new_key(settings: Settings, begun: Revision, *, keeps: bool) -> Revision:
    """Put a new key in force; what is sealed with the old one is worthless from then on."""
    after = begun.next(seal=await make_key(settings))
    if keeps:
        await keep_closed(settings, begun, after)
    if begun.state == "rotating":
        await delete_topics(settings, [Topics(settings).assignments.name])
        after = replace(after, state="recounting")
    await append(settings, after)
    return after


async def seal_of(settings: Settings, revision: Revision) -> Seal:
    """Return the seal of a project; if its key is lost, one that is on no record."""
    try:
        return await read_seal(settings, revision)
    except NoKey:
        return Seal(token_bytes(KEY_BYTES))


def topics_to_recreate(settings: Settings, state: ProjectState) -> list[Topic]:
    """Get the topics that are recreated in a state: those computed from labels, or labels as well.

    A new key makes the old assignments worthless, too.
    Dead letters are included: bad labels and tasks produce them again.

    >>> [topic.name for topic in topics_to_recreate(Settings(prefix="a"), "resetting")][-3:]
    ['a.labels', 'a.requests', 'a.assignments']
    """
    topics = Topics(settings)
    derived = [topic for topic in topics if topic.derived]
    if state == "recounting":
        return derived
    if state == "rotating":
        return [*derived, topics.assignments]
    return [*derived, topics.labels, topics.requests, topics.assignments]


# A recount keeps what rules and users have decided: with part of the labels, tasks would close and
# reopen that did not. The facts are written once more to the evidence, before all older records of
# it are deleted.


BY_RULES = {*CLOSE_REASONS} - {"request"}  # requests are on the topic of tasks, which stays
FACTS_AT_ONCE = 1_000_000 // (300 + ID_MAX_BYTES)


async def keep_closed(settings: Settings, before: Revision, after: Revision) -> Extents:
    """Append the facts of tasks that were closed by a rule or reopened by hand.

    They are read with the key of one revision, and sealed with that of another. Returns what the
    topic had before, which can be deleted then.
    """
    evidence = Topics(settings).evidence
    extent = await extents(settings, [evidence.name])
    found = await decided(settings, await seal_of(settings, before))
    seal = await read_seal(settings, after)
    rows = {p: [kept(fact, upto(fact)) for fact in facts.values()] for p, facts in found.items()}
    await write_facts(settings, seal, evidence.name, evidence, rows)
    return extent


def upto(fact: Fact) -> int:
    """Return the offset of the last description that the fact has taken into account."""
    return max(fact.offset, fact.decided)


def kept(fact: Fact, decided: int) -> Fact:
    """Return the fact as it is from now on: decided when that description was the last."""
    now = time_ns() // 1_000_000
    return Fact(fact.task, None, None, fact.reason, fact.reopened, -1, 0, now, decided)


async def write_facts(
    settings: Settings, seal: Seal, evidence: str, target: Topic, facts: dict[int, list[Fact]]
) -> None:
    """Write facts to the evidence topic, or to a topic whose records move there as they are."""
    async with writing(settings, target) as writer:
        for partition, rows in facts.items():
            for first in range(0, len(rows), FACTS_AT_ONCE):
                value = encode_facts(Facts(0, rows[first : first + FACTS_AT_ONCE]))
                sealed = seal.header(evidence, partition, value, COLUMNS)
                await writer.send(target.name, [Row(None, value, headers=[sealed])], partition)


async def decided(settings: Settings, seal: Seal) -> dict[int, dict[str, Fact]]:
    """Return the last fact of each task closed by a rule or reopened by hand, by partition."""
    last: dict[int, dict[str, tuple[tuple[int, int], Fact]]] = {}
    async with reading(settings, Topics(settings).evidence.name, from_start=True) as reader:
        async for records in reader.to_the_end("Reading what is closed"):
            for record in records:
                for epoch, fact in _facts(record, seal):
                    known, when = last.setdefault(record.partition, {}), (fact.offset, epoch)
                    if fact.task not in known or when >= known[fact.task][0]:
                        known[fact.task] = when, fact
    return {
        partition: {
            task: fact
            for task, (_, fact) in known.items()
            if fact.reason in BY_RULES or fact.reopened
        }
        for partition, known in last.items()
    }


def _facts(record: ConsumerRecord, seal: Seal) -> Iterator[tuple[int, Fact]]:
    """Yield the facts in a record of the evidence, with epochs; none if it is not genuine."""
    if seal.is_on(record, COLUMNS):
        with suppress(BadRecord):  # of an earlier version
            columns = Columns(record.value)
            if columns.kind == "facts":
                facts = read_facts(columns)
                yield from ((facts.epoch, fact) for fact in facts.rows)


async def _is_intact(settings: Settings) -> bool:
    """Whether the evidence topic is as the project needs it; otherwise it is recreated."""
    evidence = Topics(settings).evidence
    async with connected_admin(settings) as admin:
        found = await find_topics(admin, [evidence])
    return evidence.name in found and not mismatches(evidence, found[evidence.name])


# Deletes a project; the group has to be empty for that, as for recreating its topics.


async def delete(place: Settings, begun: Revision, note: Note) -> None:
    """Delete the topics and the group; the project topic, which has the state, last."""
    settings = begun.apply_to(place)
    await until_group_is_empty(settings, note)
    topics = Topics(settings)
    *others, project = [topic.name for topic in topics]
    former = begun.topics.keys() - {project}  # a recount that was killed may have left them
    carried = [topic.name for topic in topics.carried]
    await delete_topics(settings, {*others, *carried, *former})
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
