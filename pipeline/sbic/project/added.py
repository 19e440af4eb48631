"""Partitions that somebody adds to topics: noticed everywhere, and emptied by a recount.

Kafka cannot remove partitions. Topics that are computed are recreated; what users have written is
moved to the partitions of the project. Those added are empty then, and nobody takes notice of them
until somebody writes there again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from sbic.kafka.admin import Extents, alter_topics, delete_records, extents, extents_of
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.errors import ClusterError
from sbic.kafka.protocol import TopicIds
from sbic.kafka.reader import reading
from sbic.kafka.writer import Writer, writing
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.dead_letters import Origin, forwarded_headers
from sbic.wire.partitions import Row, partition_of
from sbic.wire.seal import Seal


class AddedPartitions(ClusterError):
    """Somebody has added partitions to a topic of the project, and they matter."""

    def __init__(self, prefix: str, topic: Topic, has: int, records: int = 0) -> None:
        way_out = (
            f"use them, in all topics, with: sbic project repartition {has} --prefix {prefix}; or "
            f"move the {records:,} records in them, if no producer goes on writing there, with: "
            f"sbic project recount --prefix {prefix}"
        )
        if topic.derived:
            way_out = f"recreate the topic with: sbic project recount --prefix {prefix}"
        super().__init__(
            f"{topic.name} has {has} partitions, the project {prefix} has {topic.partitions}: "
            "somebody has added partitions, and Kafka cannot remove them. Nothing is counted here "
            f"any more, and no label is lost: {way_out}"
        )


async def check_partitions(settings: Settings, without: Iterable[Topic] = ()) -> None:
    """Raise `AddedPartitions` if a topic has more partitions than the project, and they matter.

    They do if there is anything in them, or if instances would have to fill them.
    """
    async with (
        connected(TopicIds(settings), settings) as client,
        connected(new_consumer(settings), settings) as asking,
    ):
        await check_partitions_on(client, asking, without)


async def check_partitions_on(
    client: TopicIds, asking: AIOKafkaConsumer, without: Iterable[Topic] = ()
) -> None:
    """Do the same on connections that stay open.

    A topic that this client must not describe has no partitions to it.
    """
    settings = client.settings
    # of internal topics that are not computed, everybody reads and writes the first partition only
    topics = {
        topic.name: topic
        for topic in Topics(settings)
        if topic not in without and (topic.public or topic.derived)
    }
    found = await client.describe(topics)
    for name, described in found.items():
        topic, has = topics[name], described.partitions
        if has <= topic.partitions:
            continue
        added = [TopicPartition(name, number) for number in range(topic.partitions, has)]
        records = 0 if topic.derived else _records(await extents_of(asking, added))
        if topic.derived or records:
            raise AddedPartitions(settings.prefix, topic, has, records)


LOOK_SECONDS = 1.0


async def while_none_are_added(settings: Settings, work: Coroutine[Any, Any, None]) -> None:
    """Run what reads topics until it ends; raises `AddedPartitions`, which it would not read."""
    working = asyncio.create_task(work)
    try:
        async with (
            connected(TopicIds(settings), settings) as client,
            connected(new_consumer(settings), settings) as asking,
        ):
            while not working.done():
                with suppress(KafkaError):  # the broker may be away for a while
                    await check_partitions_on(client, asking)
                await asyncio.wait([working], timeout=LOOK_SECONDS)
        working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _in_added(settings: Settings, topic: Topic) -> Extents:
    """Return the added partitions of a topic that are not empty."""
    found = await extents(settings, [topic.name])
    return {
        tp: extent
        for tp, extent in found.items()
        if tp.partition >= topic.partitions and extent.end > extent.begin
    }


def _records(found: Extents) -> int:
    return sum(extent.end - extent.begin for extent in found.values())


# Moves records, each once, also if the command was killed on the way: a moved record says, sealed,
# where it comes from.


async def empty_added(
    settings: Settings, seal: Seal, topics: Iterable[Topic], note: Callable[[str], None]
) -> None:
    """Move what is in added partitions of these topics to the partitions of their keys."""
    for topic in topics:
        added = await _in_added(settings, topic)
        if not added:
            continue
        before = await _moved_before(settings, seal, topic)
        await _move(settings, seal, topic, added, before)
        await _delete_moved(settings, topic, added)
        note(
            f"moved {_records(added):,} records of {topic.name} to the partitions of the project "
            f"{settings.prefix}, from partitions that somebody has added"
        )


async def _moved_before(settings: Settings, seal: Seal, topic: Topic) -> set[Origin]:
    """Return the origins of records that a command moved which was killed before it was done."""
    found: set[Origin] = set()
    async with reading(settings, topic.name, from_start=True) as reader:
        has = len(reader.partitions)
        reader.read_only(range(topic.partitions))
        async for records in reader.to_the_end(f"Looking through {topic.name}"):
            origins = (seal.origin(record, has) for record in records if record.headers)
            found.update(each for each in origins if each and each.partition >= topic.partitions)
    return found


async def _move(
    settings: Settings, seal: Seal, topic: Topic, added: Extents, before: set[Origin]
) -> None:
    """Write the records, those of each added partition in order; all are acknowledged on return."""
    async with (
        reading(settings, topic.name, from_start=True) as reader,
        writing(settings, topic) as writer,
    ):
        reader.read_only(tp.partition for tp in added)
        async for records in reader.to_the_end(f"Moving {topic.name}"):
            await asyncio.gather(
                *(
                    _put(writer, seal, topic, record)
                    for record in records
                    if record.offset < added[_place(record)].end
                    and Origin(topic.name, record.partition, record.offset) not in before
                )
            )


def _put(
    writer: Writer, seal: Seal, topic: Topic, record: ConsumerRecord
) -> "asyncio.Future[None]":
    """Begin to write a record to the partition of its key, with its origin."""
    key, value = record.key, record.value
    home = record.partition % topic.partitions
    if key is not None:
        home = partition_of(key, topic.partitions)
    origin = Origin(topic.name, record.partition, record.offset)
    headers = forwarded_headers(record.headers, seal.origin_header(topic.name, home, value, origin))
    row = Row(key, value, record.timestamp, headers)
    return writer.put(topic.name, [row], home).done


def _place(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


async def _delete_moved(settings: Settings, topic: Topic, added: Extents) -> None:
    """Delete what was moved; Kafka deletes no records of a topic that is only compacted."""
    may_delete = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
    is_compacted = topic.config["cleanup.policy"] == "compact"
    if is_compacted:
        await alter_topics(settings, [replace(topic, config={**topic.config, **may_delete})])
    await delete_records(settings, added)
    if is_compacted:
        await alter_topics(settings, [topic])
