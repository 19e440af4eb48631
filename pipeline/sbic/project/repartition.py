"""Gives a project another number of partitions, with all labels; once begun, it can be completed.

Kafka shares keys out among the partitions, so another number moves nearly all of them. What users
wrote is copied by key to topics of the new number, beside the old ones; these are deleted once all
is there. Then the topics of the project are created anew, and filled. The rest is counted again.

Every step can be repeated. Until the state is `filling` nothing of the old topics is deleted; from
then on nothing of the copies, until the project is `ready`.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from aiokafka import ConsumerRecord, TopicPartition

from sbic.kafka.admin import (
    alter_topics,
    create_topics,
    delete_topics,
    ensure_topics,
    extents,
)
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import delete_group
from sbic.kafka.protocol import check_role
from sbic.kafka.reader import reading
from sbic.kafka.writer import writing
from sbic.project.copying import Copying, inputs_of
from sbic.project.opening import (
    Conflict,
    Unfinished,
    append,
    existing_project,
    read_project,
    read_seal,
    topic_ids,
)
from sbic.project.recreation import Note, decided, kept, until_group_is_empty, upto, write_facts
from sbic.project.revision import Revision
from sbic.project.settings import SPECS, Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.changelogs import Fact
from sbic.wire.labels import label_parser
from sbic.wire.partitions import Row, partition_of
from sbic.wire.tasks import task_parser

FENCE = {"max.message.bytes": "0"}  # Kafka refuses whatever is written, and says so
FENCE_SECONDS = 1.0  # for brokers to hear of it; whether they have is checked before a deletion
IN_FLIGHT = 64


class Incomplete(ClusterError):
    """A topic does not have what it should; the one that it is copied from is still there."""

    def __init__(self, prefix: str, partitions: int, what: str) -> None:
        super().__init__(
            f"{what}; no label is lost: run again sbic project repartition {partitions} "
            f"--prefix {prefix}"
        )


async def begin_repartition(place: Settings, partitions: int) -> Revision | None:
    """Publish the new number of partitions, or continue from where an earlier command was.

    Returns None if the project has that number, in all topics. While copies are made, another
    number may be chosen, and the old one calls it off.
    """
    revision = await existing_project(place)
    settings = replace(
        revision.apply_to(place), partitions=SPECS["partitions"].read(str(partitions))
    )
    now = revision.partitions_before or revision.settings["partitions"]
    if revision.state == "filling":
        if partitions != now:
            raise Unfinished(place.prefix, revision)
        return revision
    if revision.state not in ("ready", "repartitioning"):
        raise Unfinished(place.prefix, revision)
    await check_role(place, "operator")
    before = replace(settings, partitions=now)
    if revision.state == "repartitioning" and partitions == now:
        await _call_off(place, before, revision)
        return None
    if revision.state == "ready":
        await read_seal(before, revision)
        await alter_topics(before)
        await ensure_topics(before, is_made=True)
        if partitions == now and not await _has_added(before):
            await delete_topics(settings, [topic.name for topic in Topics(settings).carried])
            return None
    elif partitions == revision.settings["partitions"]:
        return revision
    begun = revision.next(
        state="repartitioning",
        settings={**revision.settings, "partitions": partitions},
        topics=await topic_ids(settings),
        partitions_before=now,
    )
    await append(place, begun)
    return begun


async def _has_added(settings: Settings) -> bool:
    """Return whether somebody has added partitions to any topic."""
    topics = {topic.name: topic for topic in Topics(settings)}
    found = await extents(settings, topics)
    return any(tp.partition >= topics[tp.topic].partitions for tp in found)


async def _call_off(place: Settings, before: Settings, revision: Revision) -> None:
    """Let the project go on as it was; nothing of it was deleted yet."""
    await alter_topics(before)  # without the fence
    settings = {**revision.settings, "partitions": before.partitions}
    await append(place, revision.next(state="ready", settings=settings, partitions_before=0))
    await delete_topics(before, [topic.name for topic in Topics(before).carried])


async def repartition(place: Settings, begun: Revision, note: Note) -> Revision:
    """Go through the steps from the one in which the project is.

    1. What users wrote is copied by key, and once nobody can write there any more, the rest of it.
    2. The copies are compared with what was read; from now on they are the project's labels.
    3. All old topics are deleted, and created with the new number of partitions.
    4. They are filled from the copies, whose numbers are compared again.
    5. The group forgets its offsets, the project is ready, and the copies are deleted.
    """
    settings = begun.apply_to(place)
    topics = Topics(settings)
    await until_group_is_empty(settings, note)
    if await read_project(place) != begun:
        raise Conflict(place.prefix)  # the same command was completed elsewhere
    if begun.state == "repartitioning":
        await _carry(settings, begun)
        begun = begun.next(state="filling", partitions_before=0)
        await append(place, begun)
    await _recreate(settings, begun)
    for carried, topic in zip(topics.carried, topics.moving, strict=True):
        await _fill(settings, carried, topic)
    for name, more in (await _compared(settings)).items():
        note(
            f"{more:,} records were written to {name} before it was filled, by producers that "
            "write to Kafka directly: they come before older ones of the same workers or tasks"
        )
    await delete_group(settings)
    ready = begun.next(state="ready", topics=await topic_ids(settings))
    await append(place, ready)
    await delete_topics(settings, [topic.name for topic in topics.carried])
    return ready


# Steps 1 and 2: copies beside the old topics.


async def _carry(settings: Settings, begun: Revision) -> None:
    """Make the copies, anew, and check that they are complete."""
    before = replace(settings, partitions=begun.partitions_before)
    topics = Topics(settings)
    tasks, roster, labels, evidence = topics.carried
    names = [topic.name for topic in topics.carried]
    await delete_topics(settings, names)
    await create_topics(settings, topics.carried)
    seal = await read_seal(before, begun)
    classes = before.crowd_classes
    inputs = inputs_of(before, label_parser(classes), task_parser(classes))
    closed = await decided(before, seal)
    facts = {task: fact for known in closed.values() for task, fact in known.items()}
    last: dict[str, int] = {}

    def note_last(record: ConsumerRecord, key: bytes | None, offset: int) -> None:
        """Note the new offset of the last description that a decision has taken into account."""
        if key is None or partition_of(key, before.partitions) != record.partition:
            return
        fact = facts.get(key.decode())
        if fact is not None and record.offset <= upto(fact):
            last[fact.task] = offset

    copies: dict[str, Copying] = {}
    for source, target, copied in (
        (inputs.tasks, tasks, note_last),
        (inputs.roster, roster, None),
        (inputs.labels, labels, None),
    ):
        copying = Copying(before, settings, seal, source, target, copied=copied)
        await copying.run(partial(_fence, before, source.topic))
        copies[source.topic.name] = copying
    moved: dict[int, list[Fact]] = {}
    for task, fact in facts.items():
        home = partition_of(task.encode(), settings.partitions)
        moved.setdefault(home, []).append(kept(fact, last.get(task, -1)))
    await write_facts(settings, seal, topics.evidence.name, evidence, moved)
    await _check(settings, begun, copies)


async def _fence(before: Settings, topic: Topic) -> None:
    """Let Kafka refuse what anybody writes to a topic."""
    await alter_topics(before, [replace(topic, config={**topic.config, **FENCE})])
    await asyncio.sleep(FENCE_SECONDS)


async def _check(settings: Settings, begun: Revision, copies: dict[str, Copying]) -> None:
    """Raise `Incomplete` unless the copies have all that was read, and all was read."""
    targets = [copying.target.name for copying in copies.values()]
    found = await extents(settings, [*copies, *targets])
    again = settings.prefix, settings.partitions
    for topic, copying in copies.items():
        for partition, offset in copying.read_to.items():
            if (end := found[TopicPartition(topic, partition)].end) != offset:
                raise Incomplete(*again, f"{end - offset:,} records were written to {topic}")
        for partition, written in enumerate(copying.written):
            has = found[TopicPartition(copying.target.name, partition)]
            if (has.begin, has.end) != (0, written):
                raise Incomplete(
                    *again,
                    f"partition {partition} of {copying.target.name} has {has.end - has.begin:,} "
                    f"records, not {written:,}",
                )
    ids = await topic_ids(settings)
    if any(ids.get(name) != begun.topics.get(name) for name in copies):
        raise Incomplete(*again, "topics were deleted or recreated meanwhile")


# Steps 3 and 4: new topics, filled from the copies.


async def _recreate(settings: Settings, begun: Revision) -> None:
    """Delete the topics that are still those of before, and create those that are missing."""
    topics = Topics(settings)
    stay = {topics.seal.name, topics.project.name}
    ids = await topic_ids(settings)
    old = [name for name, found in ids.items() if begun.topics.get(name) == found]
    await delete_topics(settings, [name for name in old if name not in stay])
    await ensure_topics(settings, is_made=True)


async def _fill(settings: Settings, carried: Topic, topic: Topic) -> None:
    """Write the records of a copy to the same partitions, without those that are there already."""
    there = await extents(settings, [topic.name])
    starts = {
        tp.partition: await _filled(settings, carried, tp)
        for tp, extent in there.items()
        if extent.end
    }
    async with (
        reading(settings, carried.name, from_start=True) as reader,
        writing(settings, topic) as writer,
    ):
        for partition, start in starts.items():
            reader.consumer.seek(TopicPartition(carried.name, partition), start)
        in_flight = []
        async for records in reader.to_the_end(f"Filling {topic.name}"):
            rows: dict[int, list[Row]] = {}
            for each in records:
                row = Row(each.key, each.value, each.timestamp, list(each.headers))
                rows.setdefault(each.partition, []).append(row)
            in_flight += [writer.put(topic.name, some, home) for home, some in rows.items()]
            while len(in_flight) > IN_FLIGHT:
                await in_flight.pop(0).done
        for delivery in in_flight:
            await delivery.done


async def _filled(settings: Settings, carried: Topic, place: TopicPartition) -> int:
    """Return how many records of a copy's partition a command that was killed has written.

    They are there in their order; what others wrote may be in between.
    """
    written = 0
    copies = _records(settings, carried.name, place.partition)
    wanted = await anext(copies, None)
    async for record in _records(settings, place.topic, place.partition):
        if wanted is not None and _content(record) == _content(wanted):
            written += 1
            wanted = await anext(copies, None)
    await copies.aclose()
    return written


async def _records(
    settings: Settings, topic: str, partition: int
) -> AsyncGenerator[ConsumerRecord]:
    async with reading(settings, topic, from_start=True) as reader:
        reader.read_only([partition])
        async for records in reader.to_the_end():
            for record in records:
                yield record


def _content(record: ConsumerRecord) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers)


async def _compared(settings: Settings) -> dict[str, int]:
    """Return how many more records than copied topics have; raise `Incomplete` if fewer."""
    topics = Topics(settings)
    pairs = list(zip(topics.carried, topics.moving, strict=True))
    found = await extents(settings, [each.name for pair in pairs for each in pair])
    more: dict[str, int] = {}
    for carried, topic in pairs:
        for partition in range(settings.partitions):
            copied = found[TopicPartition(carried.name, partition)].end
            has = found[TopicPartition(topic.name, partition)].end
            if has < copied:
                raise Incomplete(
                    settings.prefix,
                    settings.partitions,
                    f"partition {partition} of {topic.name} has {has:,} records, not {copied:,}",
                )
            if has > copied:
                more[topic.name] = more.get(topic.name, 0) + has - copied
    return more
