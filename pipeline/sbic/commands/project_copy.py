"""`sbic project copy`: copies a project to another prefix, and renames its classes on the way."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click
from orjson import dumps

from sbic.classes import Classes
from sbic.commands.options import BadInput, given_options, run_connected
from sbic.foreign import shown
from sbic.kafka.admin import delete_topics, ensure_topics
from sbic.kafka.connect import connected, new_producer
from sbic.kafka.errors import ClusterError
from sbic.kafka.reader import reading
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
from sbic.project.revision import Given, Revision
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord, parser, read_object
from sbic.wire.partitions import partition_of

Renaming = Callable[[bytes], bytes]


class Exists(ClusterError):
    """There is a project with the new prefix, which is not the unfinished copy."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"the project {prefix} exists, and nothing was changed: choose another name for the "
            f"copy, or delete the project with: sbic project delete --prefix {prefix}"
        )


@dataclass(frozen=True)
class Renamed:
    """The classes of a project before and after; `names` has the new name of each old one.

    >>> pets = Renamed.by({"Katze": "cat", "Kater": "cat"}, Classes.parse("Katze,Kater,dog"))
    >>> pets.new.names, pets.label(b'{"task":"t1","worker":"ann","label":"Kater"}')
    (('cat', 'dog'), b'{"task":"t1","worker":"ann","label":"cat"}')
    >>> pets.task(b'{"task":"t1","gold":"Katze","prior":{"Katze":0.5,"Kater":0.25,"dog":0.25}}')
    b'{"task":"t1","gold":"cat","prior":{"cat":0.75,"dog":0.25}}'

    >>> pets.task(b'{"prior":{"Katze":"much"}}'), pets.label(b"[" * 1000)[:2]
    (b'{"prior":{"Katze":"much"}}', b'[[')

    >>> signs = Renamed.by({"1": "yes", "-1": "no"}, Classes.parse("-1,1"))
    >>> signs.label(b'{"task":"t1","worker":"ann","label":1}')
    b'{"task":"t1","worker":"ann","label":"yes"}'
    >>> signs.task(b'{"task":"t1","prior":0.75}')
    b'{"task":"t1","prior":{"no":0.25,"yes":0.75}}'
    """

    old: Classes
    new: Classes
    names: Mapping[str, str]

    @classmethod
    def by(cls, label_map: Mapping[str, str], old: Classes) -> "Renamed":
        """The classes renamed by a map; raises `ValueError`."""
        for name in label_map:
            if name not in old.names:
                raise ValueError(f"{shown(name)} is not one of the classes {old.listed()}")
        names = {name: label_map.get(name, name) for name in old.names}
        return cls(old, Classes.parse(",".join(dict.fromkeys(names.values()))), names)

    def label(self, value: bytes) -> bytes:
        """The value of a label with its class renamed; any other value as it is."""
        return self._changed(value, label=self._class)

    def task(self, value: bytes) -> bytes:
        """The value of a task with the classes of its gold and prior renamed."""
        return self._changed(value, gold=self._class, prior=self._prior)

    def _changed(self, value: bytes, **fields: Callable[[Any], Any]) -> bytes:
        if self.old == self.new:
            return value
        try:
            return self._renamed(read_object(value), fields)
        except BadRecord:
            return value  # a dead letter there, and here

    @staticmethod
    @parser
    def _renamed(record: dict[str, Any], fields: Mapping[str, Callable[[Any], Any]]) -> bytes:
        found = {name: new(record[name]) for name, new in fields.items() if name in record}
        return dumps(record | found)

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


async def copy_project(old: Settings, new: Settings, label_map: Mapping[str, str]) -> int:
    """Copy all inputs; returns the number of records. An unfinished copy begins anew."""
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
        seal = await make_key(after)
        revision = Revision(1, settings, {}, "copying", seal, copy_of=old.prefix)
        await append(after, revision)
    elif (revision.state, revision.copy_of) != ("copying", old.prefix):
        raise Exists(new.prefix)
    else:
        revision = revision.next(settings=settings)
        await append(after, revision)
        await delete_topics(after, [topics.labels.name, topics.tasks.name, topics.roster.name])
        await ensure_topics(after)
    there = Topics(before)
    copied = await _copy(before, there.tasks.name, after, topics.tasks.name, renamed.task)
    copied += await _copy(before, there.roster.name, after, topics.roster.name, bytes)
    copied += await _copy(before, there.labels.name, after, topics.labels.name, renamed.label)
    ids = await topic_ids(after)
    await append(after, revision.next(state="ready", topics=ids, copy_of=""))
    return copied


async def _copy(old: Settings, source: str, new: Settings, target: str, renaming: Renaming) -> int:
    """Copy the records of a topic, those of each key in order; all are acknowledged on return."""
    copied = 0
    async with (
        reading(old, source, from_start=True) as reader,
        connected(new_producer(new, linger_ms=5), new) as producer,
    ):
        async for records in reader.to_the_end(f"Copying {source}"):
            sent = [
                await producer.send(
                    target,
                    None if record.value is None else renaming(record.value),
                    key=record.key,
                    partition=record.partition
                    if record.key is None
                    else partition_of(record.key, new.partitions),
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
                if record.offset < reader.ends[reader.partitions[record.partition]]
                and not (record.key is None and record.value is None)  # aiokafka refuses these
            ]
            await asyncio.gather(*sent)
            copied += len(sent)
    return copied


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
    click.echo(
        f"copied: {copied:,} records of {old} to {new}; to count them: sbic run --prefix {new}",
        err=True,
    )
