"""Copies records to the partitions of their tasks or workers: each once, and in their order."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np
from aiokafka import ConsumerRecord

from sbic.instance.taken import CountedOffsets
from sbic.instance.workers import WorkerPartition
from sbic.kafka.admin import extents
from sbic.kafka.reader import Reader, reading
from sbic.kafka.writer import Delivery, Writer, writing
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import BadRecord
from sbic.wire.dead_letters import ORIGIN_HEADER, content_mark
from sbic.wire.labels import CodedLabel
from sbic.wire.partitions import Row, partition_of
from sbic.wire.seal import Seal
from sbic.wire.tasks import TaskParser
from sbic.wire.workers import parse_roster

IN_FLIGHT = 4  # portions: the next one is read meanwhile
LOOK_SECONDS = 0.2


class Input(NamedTuple):
    """A topic that users write; `id_of`: the task or worker that a record belongs to.

    `id_of` raises `BadRecord`. `each_once`: what was forwarded twice because of a crash counts
    once, and is copied once.
    """

    topic: Topic
    id_of: Callable[[ConsumerRecord], str]
    each_once: bool = False


class Inputs(NamedTuple):
    """What users write, and all else is computed from."""

    tasks: Input
    roster: Input
    labels: Input


def inputs_of(
    settings: Settings, parse_label: Callable[[bytes | None], CodedLabel], parse_task: TaskParser
) -> Inputs:
    """Return the inputs of a project, whose labels and tasks are parsed by these."""
    topics = Topics(settings)
    return Inputs(
        Input(topics.tasks, lambda record: parse_task(record.key, record.value)["task"]),
        Input(topics.roster, lambda record: parse_roster(record.key, record.value)[0]),
        Input(
            topics.labels,
            lambda record: parse_label(record.value)[1],
            each_once=settings.repeats == "last",
        ),
    )


class Copying:
    """Copies one input to an empty topic, which may have another number of partitions.

    A stray is a record that is not in the partition of its task or worker. An instance forwards it,
    and seals where it came from with a key that the copy does not have. There it would be forwarded
    again, after all others. So what was forwarded is copied from where it was forwarded to only;
    other strays go where they belong, after the rest.

    `copied` is called with each record, its task or worker, and its new offset. `written` has
    the number of records by partition, `left_out` that of strays that were forwarded, and `read_to`
    the offset after the last record of each partition of the source.
    """

    def __init__(
        self,
        old: Settings,
        new: Settings,
        seal: Seal,
        source: Input,
        target: Topic,
        *,
        renaming: Callable[[bytes], bytes] = bytes,
        copied: Callable[[ConsumerRecord, bytes | None, int], None] | None = None,
    ) -> None:
        self.old = old
        self.new = new
        self.seal = seal
        self.source = source
        self.target = target
        self.renaming = renaming
        self.copied = copied
        self.written = [0] * target.partitions
        self.left_out = 0
        self.read_to: dict[int, int] = {}
        self._has = 0
        self._seen = [WorkerPartition() for _ in range(old.partitions)]
        self._forwarded: dict[int, CountedOffsets] = {}
        self._strays: dict[int, CountedOffsets] = {}
        self._in_flight: deque[Delivery] = deque()

    async def run(self, fence: Callable[[], Awaitable[None]] | None = None) -> None:
        """Copy what the topic has now; with a `fence`, what it has once nobody can write there.

        All is acknowledged on return.
        """
        name = self.source.topic.name
        async with (
            reading(self.old, name, from_start=True) as reader,
            writing(self.new, self.target) as writer,
        ):
            self._has = len(reader.partitions)
            async for records in reader.to_the_end(f"Copying {name}"):
                await self._copy(writer, records, self._is_at_home)
            if fence is not None:
                await fence()
                await self._rest(reader, writer)
            for tp in reader.partitions:
                self.read_to[tp.partition] = int(await reader.consumer.position(tp))
            if self._strays:
                await reader.consumer.seek_to_beginning(*reader.partitions)
                async for records in reader.to_the_end(f"Copying what was misplaced in {name}"):
                    await self._copy(writer, records, self._is_left)
            await self._acknowledged(0)

    async def _rest(self, reader: Reader, writer: Writer) -> None:
        """Copy to the end of the log, which an open transaction holds up."""
        name = self.source.topic.name
        while True:
            ends = {tp: extent.end for tp, extent in (await extents(self.old, [name])).items()}
            here = {tp: int(await reader.consumer.position(tp)) for tp in reader.partitions}
            if all(here[tp] >= ends[tp] for tp in reader.partitions):
                reader.ends = ends
                return
            records = await reader.next(LOOK_SECONDS)
            await self._copy(writer, records, self._is_at_home)

    def _is_at_home(self, record: ConsumerRecord, key: bytes | None) -> bool:
        """Return whether to copy a record now; note strays, and what was forwarded to here."""
        partition, offset = record.partition, record.offset
        if _home(record, key, self.old.partitions) != partition:
            self._strays.setdefault(partition, CountedOffsets()).add(np.array([offset]))
            return False
        origin = self.seal.origin(record, self._has) if record.headers else None
        if origin is None:
            return True
        forwarded = self._forwarded.setdefault(origin.partition, CountedOffsets())
        forwarded.add(np.array([origin.offset]))
        mark = content_mark(origin, record.value)
        if self.source.each_once and self._seen[partition].is_marked(mark):
            self.left_out += 1
            return False
        return True

    def _is_left(self, record: ConsumerRecord, _key: bytes | None) -> bool:
        """Return whether a record is a stray that was not forwarded."""
        partition, offset = record.partition, record.offset
        if partition not in self._strays or offset not in self._strays[partition]:
            return False
        if partition in self._forwarded and offset in self._forwarded[partition]:
            self.left_out += 1
            return False
        return True

    async def _copy(
        self,
        writer: Writer,
        records: Sequence[ConsumerRecord],
        is_copied: Callable[[ConsumerRecord, bytes | None], bool],
    ) -> None:
        rows: dict[int, list[Row]] = {}
        for record in records:
            key = self._key_of(record)
            if not is_copied(record, key):
                continue
            home = _home(record, key, self.target.partitions)
            if self.copied is not None:
                self.copied(record, key, self.written[home])
            self.written[home] += 1
            rows.setdefault(home, []).append(self._row_of(record))
        self._in_flight += [writer.put(self.target.name, some, home) for home, some in rows.items()]
        await self._acknowledged(IN_FLIGHT * self.target.partitions)

    def _key_of(self, record: ConsumerRecord) -> bytes | None:
        """Return the task or worker that a record belongs to; None if nobody can parse it."""
        try:
            return self.source.id_of(record).encode()
        except BadRecord:
            return None

    async def _acknowledged(self, most: int) -> None:
        """Wait until at most so many deliveries are in flight."""
        while len(self._in_flight) > most:
            await self._in_flight.popleft().done

    def _row_of(self, record: ConsumerRecord) -> Row:
        value = None if record.value is None else self.renaming(record.value)
        headers = [header for header in record.headers if header[0] != ORIGIN_HEADER]
        return Row(record.key, value, record.timestamp, headers)


def _home(record: ConsumerRecord, key: bytes | None, partitions: int) -> int:
    """Return the partition of a key; a record that nobody can parse stays where it is."""
    return int(record.partition) % partitions if key is None else partition_of(key, partitions)
