"""`sbic project copy`: copies a project to another prefix, and renames its classes on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import click
import numpy as np
from aiokafka import ConsumerRecord, TopicPartition
from orjson import JSONEncodeError, dumps, loads

from sbic.classes import Classes
from sbic.commands import tell
from sbic.commands.options import BadInput, given_options, run_connected
from sbic.foreign import shown
from sbic.instance.taken import CountedOffsets
from sbic.instance.workers import WorkerPartition
from sbic.kafka.admin import delete_topics, ensure_topics
from sbic.kafka.errors import ClusterError
from sbic.kafka.reader import Reader, reading
from sbic.kafka.writer import writing
from sbic.project.added import check_partitions
from sbic.project.changes import change
from sbic.project.opening import (
    Unfinished,
    append,
    existing_project,
    make_key,
    read_project,
    topic_ids,
)
from sbic.project.recreation import seal_of
from sbic.project.revision import Given, Revision
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import BadRecord
from sbic.wire.dead_letters import content_mark
from sbic.wire.labels import MAX_BYTES, CodedLabel, label_parser
from sbic.wire.partitions import Row, partition_of
from sbic.wire.seal import Seal
from sbic.wire.tasks import Description, TaskParser, task_parser
from sbic.wire.workers import parse_roster


class Exists(ClusterError):
    """There is a project with the new prefix, which is not the unfinished copy."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"the project {prefix} exists, and nothing was changed: choose another name for the "
            f"copy, or delete the project with: sbic project delete --prefix {prefix}"
        )


LABEL_FIELDS = ("task", "worker", "label")
TASK_FIELDS = tuple(Description.__annotations__)


@dataclass
class Renamed:
    """The classes of a project before and after; `names` has the new name of each old one.

    `shortened` is the number of records that could not be written again with fields that mean
    nothing to sbic: orjson reads deeper values than it writes.

    >>> pets = Renamed.by({"Katze": "cat", "Kater": "cat"}, Classes.parse("Katze,Kater,dog"))
    >>> pets.new.names, pets.label(b'{"task":"t1","worker":"ann","label":"Kater"}')
    (('cat', 'dog'), b'{"task":"t1","worker":"ann","label":"cat"}')
    >>> pets.task(b'{"task":"t1","gold":"Katze","prior":{"Katze":0.5,"Kater":0.25,"dog":0.25}}')
    b'{"task":"t1","gold":"cat","prior":{"cat":0.75,"dog":0.25}}'

    What is no label or task stays as it is: a dead letter there, and here.

    >>> pets.task(b'{"prior":{"Katze":"much"}}'), pets.label(b"[" * 1000)[:2]
    (b'{"prior":{"Katze":"much"}}', b'[[')
    >>> note = b"[" * 300 + b"]" * 300
    >>> pets.label(b'{"task":"t1","worker":"ann","label":"Katze","note":%s}' % note), pets.shortened
    (b'{"task":"t1","worker":"ann","label":"cat"}', 1)

    >>> signs = Renamed.by({"1": "yes", "-1": "no"}, Classes.parse("-1,1"))
    >>> signs.label(b'{"task":"t1","worker":"ann","label":1}')
    b'{"task":"t1","worker":"ann","label":"yes"}'
    >>> signs.task(b'{"task":"t1","prior":0.75}')
    b'{"task":"t1","prior":{"no":0.25,"yes":0.75}}'
    """

    old: Classes
    new: Classes
    names: Mapping[str, str]
    shortened: int = 0

    @classmethod
    def by(cls, label_map: Mapping[str, str], old: Classes) -> "Renamed":
        """Return the classes renamed by a map; raise `ValueError`."""
        for name in label_map:
            if name not in old.names:
                raise ValueError(f"{shown(name)} is not one of the classes {old.listed()}")
        names = {name: label_map.get(name, name) for name in old.names}
        return cls(old, Classes.of(dict.fromkeys(names.values())), names)

    @cached_property
    def parse_label(self) -> Callable[[bytes | None], CodedLabel]:
        """Parse a label with its old class, or raise `BadRecord`."""
        return label_parser(self.old)

    @cached_property
    def parse_task(self) -> TaskParser:
        """Parse a description of a task with its old classes, or raise `BadRecord`."""
        return task_parser(self.old)

    def label(self, value: bytes) -> bytes:
        """Return the value of a label with its class renamed; any other value as it is."""
        try:
            self.parse_label(value)
        except BadRecord:
            return value
        return self._changed(value, LABEL_FIELDS, label=self._class)

    def task(self, value: bytes) -> bytes:
        """Return the value of a task with the classes of its gold and prior renamed."""
        try:
            self.parse_task(None, value)
        except BadRecord:
            return value
        return self._changed(value, TASK_FIELDS, gold=self._class, prior=self._prior)

    def _changed(self, value: bytes, known: Sequence[str], **fields: Callable[[Any], Any]) -> bytes:
        if self.old == self.new:
            return value
        record = loads(value)
        found = {name: new(record[name]) for name, new in fields.items() if name in record}
        try:
            renamed = dumps(record | found)
            if len(renamed) <= MAX_BYTES:
                return renamed
        except JSONEncodeError:
            pass
        self.shortened += 1
        return dumps({name: record[name] for name in known if name in record} | found)

    def _class(self, label: object) -> object:
        number = self.old.number_of(label)
        return label if number is None else self._label(self.old.names[number])

    def _label(self, name: str) -> int | str:
        return self.new.labels[self.new.names.index(self.names[name])]

    def _prior(self, prior: object) -> object:
        if self.old.is_signs and type(prior) in (int, float):
            prior = {"-1": 1 - prior, "1": prior}  # type: ignore[operator]
        if not isinstance(prior, dict) or not prior.keys() <= self.names.keys():
            return prior
        shares: dict[int | str, float] = {}
        for name, share in prior.items():
            shares[self._label(name)] = shares.get(self._label(name), 0) + share
        return shares.get(1, 0.0) if self.new.is_signs else shares


class Copied(NamedTuple):
    """How many records were copied, were left out, and have lost fields: see `Renamed`.

    What an instance has forwarded is left out where it came from.
    """

    records: int
    left_out: int
    shortened: int


async def copy_project(old: Settings, new: Settings, label_map: Mapping[str, str]) -> Copied:
    """Copy all inputs. An unfinished copy begins anew."""
    from_revision = await existing_project(old)
    if from_revision.state != "ready":
        raise Unfinished(old.prefix, from_revision.state)
    before = from_revision.apply_to(old)
    await check_partitions(before)
    renamed = Renamed.by(label_map, before.crowd_classes)
    texts = {"classes": ",".join(renamed.new.names)} if label_map else {}
    settings = change(from_revision, texts, has_labels=False).settings
    after = replace(new, **settings)
    topics = Topics(after)
    revision = await read_project(new)
    if revision is None:
        await ensure_topics(after)
        key = await make_key(after)
        revision = Revision(1, settings, {}, "copying", key, copy_of=old.prefix)
        await append(after, revision)
    elif (revision.state, revision.copy_of) != ("copying", old.prefix):
        raise Exists(new.prefix)
    else:
        revision = revision.next(settings=settings)
        await append(after, revision)
        await delete_topics(after, [topics.labels.name, topics.tasks.name, topics.roster.name])
        await ensure_topics(after)
    there, seal = Topics(before), await seal_of(before, from_revision)
    inputs = (
        _Input(there.tasks, topics.tasks, partial(_task_in, renamed), renamed.task),
        _Input(there.roster, topics.roster, _worker_in, bytes),
        _Input(
            there.labels,
            topics.labels,
            partial(_giver_in, renamed),
            renamed.label,
            each_once=before.repeats == "last",
        ),
    )
    copied = left_out = 0
    for each in inputs:
        copying = _Copying(before, after, seal, each)
        await copying.run()
        copied, left_out = copied + copying.copied, left_out + copying.left_out
    ids = await topic_ids(after)
    await append(after, revision.next(state="ready", topics=ids, copy_of=""))
    return Copied(copied, left_out, renamed.shortened)


def _task_in(renamed: Renamed, record: ConsumerRecord) -> str:
    return renamed.parse_task(record.key, record.value)["task"]


def _worker_in(record: ConsumerRecord) -> str:
    return parse_roster(record.key, record.value)[0]


def _giver_in(renamed: Renamed, record: ConsumerRecord) -> str:
    return renamed.parse_label(record.value)[1]


class _Input(NamedTuple):
    """A topic to copy; `id_of` the task or worker that a record belongs to, or `BadRecord`.

    `each_once`: what was forwarded twice because of a crash counts once, and is copied once.
    """

    source: Topic
    target: Topic
    id_of: Callable[[ConsumerRecord], str]
    renaming: Callable[[bytes], bytes]
    each_once: bool = False


class _Copying:
    """Copies a topic, each partition in its order.

    An instance forwards a record from another partition than that of its task or worker, and seals
    where it came from with a key that the copy does not have. There it would be forwarded again,
    after all others. So what was forwarded is copied from where it was forwarded to only.
    """

    def __init__(self, old: Settings, new: Settings, seal: Seal, topic: _Input) -> None:
        self.old = old
        self.new = new
        self.seal = seal
        self.topic = topic
        self.forwarded = [CountedOffsets() for _ in range(old.partitions)]
        self.seen = [WorkerPartition() for _ in range(old.partitions)]
        self.copied = 0
        self.left_out = 0

    async def run(self) -> None:
        """Copy what the topic has now; all is acknowledged on return."""
        source, target = self.topic.source, self.topic.target
        async with (
            reading(self.old, source.name, from_start=True) as reader,
            writing(self.new, target) as writer,
        ):
            async for records in self._read(reader, f"Looking through {source.name}"):
                self._note_forwarded(records)
            await reader.consumer.seek_to_beginning(*reader.partitions)
            async for records in self._read(reader, f"Copying {source.name}"):
                rows: dict[int, list[Row]] = {}
                for record in records:
                    if self._is_copied(record):
                        rows.setdefault(record.partition, []).append(self._row_of(record))
                self.left_out += len(records) - sum(map(len, rows.values()))
                self.copied += sum(map(len, rows.values()))
                sent = [writer.put(target.name, some, home) for home, some in rows.items()]
                await asyncio.gather(*(delivery.done for delivery in sent))

    async def _read(self, reader: Reader, title: str) -> AsyncIterator[list[ConsumerRecord]]:
        async for records in reader.to_the_end(title):
            yield [
                record
                for record in records
                if record.offset < reader.ends[TopicPartition(record.topic, record.partition)]
            ]

    def _note_forwarded(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if record.headers and (origin := self.seal.origin(record, self.old.partitions)):
                self.forwarded[origin.partition].add(np.array([origin.offset]))

    def _is_copied(self, record: ConsumerRecord) -> bool:
        """Whether a record is neither forwarded from here nor forwarded to here twice."""
        try:
            home = partition_of(self.topic.id_of(record).encode(), self.old.partitions)
        except BadRecord:
            return True
        if home != record.partition:
            return record.offset not in self.forwarded[record.partition]
        if not self.topic.each_once or not record.headers:
            return True
        origin = self.seal.origin(record, self.old.partitions)
        return origin is None or not self.seen[home].is_marked(content_mark(origin, record.value))

    def _row_of(self, record: ConsumerRecord) -> Row:
        value = None if record.value is None else self.topic.renaming(record.value)
        return Row(record.key, value, record.timestamp, list(record.headers))


def label_map_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse pairs `OLD=NEW`.

    >>> label_map_of(("Katze=cat", "-1=no"))
    {'Katze': 'cat', '-1': 'no'}
    """
    found: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = (part.strip() for part in pair.partition("="))
        if not (old and equals and new):
            raise BadInput(f"--label-map {shown(pair)} is not OLD=NEW, such as Katze=cat")
        found[old] = new
    return found


@click.command("copy", short_help="Copy a project, and rename its classes.")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--label-map",
    "label_map",
    metavar="OLD=NEW",
    multiple=True,
    help="Rename a class, such as Katze=cat; two that get one name become one. Can be repeated.",
)
@given_options("broker")
def command(given: Given, old: str, new: str, label_map: tuple[str, ...]) -> None:
    """Copy the project OLD to the prefix NEW: settings, tasks and labels, which are counted again.

    The labels of each worker and the descriptions of each task keep their order. With --label-map
    classes get other names on the way: in labels, gold and priors. Assignments and leases are not
    copied, nor is what arrives in OLD meanwhile: stop its producers first.

    If the command is interrupted, run it again: it begins anew. A NEW that exists is refused,
    unless it is the unfinished copy.

    \b
    Examples:
      sbic project copy birds birds-2
      sbic project copy haustiere pets --label-map Katze=cat --label-map Hund=dog
    """
    renamed = label_map_of(label_map)
    if old == new:
        raise BadInput("OLD and NEW are the same")
    source, target = (given.with_values(prefix=prefix).place for prefix in (old, new))
    try:
        copied = run_connected(copy_project(source, target, renamed))
    except ValueError as error:
        raise BadInput(f"--label-map: {error}") from None
    if copied.shortened:
        tell(
            f"{copied.shortened:,} records have lost the fields that mean nothing to sbic: "
            "they are nested too deep, or too long, to be written again",
        )
    if copied.left_out:
        tell(
            f"{copied.left_out:,} records were in the wrong partition: they are copied once, from "
            "where an instance has forwarded them to",
        )
    tell(
        f"copied: {copied.records:,} records of {old} to {new}; "
        f"to count them: sbic run --prefix {new}",
    )
