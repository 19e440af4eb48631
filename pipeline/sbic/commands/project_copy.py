"""`sbic project copy`: copies a project to another prefix, and renames its classes on the way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import click
from orjson import JSONEncodeError, dumps, loads

from sbic.classes import Classes
from sbic.commands import tell
from sbic.commands.options import BadInput, given_options, run_connected
from sbic.foreign import shown
from sbic.kafka.admin import delete_topics, ensure_topics
from sbic.kafka.errors import ClusterError
from sbic.project.added import check_partitions
from sbic.project.changes import change
from sbic.project.copying import Copying, inputs_of
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
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.labels import MAX_BYTES, CodedLabel, label_parser
from sbic.wire.tasks import Description, TaskParser, task_parser


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
    >>> stars = Renamed.by({}, Classes.of_scale("1..5"))
    >>> stars.label(b'{"task":"t1","worker":"ann","label":4}')
    b'{"task":"t1","worker":"ann","label":4}'
    >>> words = Renamed.by({"1": "bad", "2": "fair", "3": "good"}, Classes.of_scale("1..3"))
    >>> words.label(b'{"task":"t1","worker":"ann","label":3}')
    b'{"task":"t1","worker":"ann","label":"good"}'
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
        if not label_map:
            return cls(old, old, names)
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
        raise Unfinished(old.prefix, from_revision)
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
    there = inputs_of(before, renamed.parse_label, renamed.parse_task)
    seal = await seal_of(before, from_revision)
    copied = left_out = 0
    for source, target, renaming in (
        (there.tasks, topics.tasks, renamed.task),
        (there.roster, topics.roster, bytes),
        (there.labels, topics.labels, renamed.label),
    ):
        copying = Copying(before, after, seal, source, target, renaming=renaming)
        await copying.run()
        copied, left_out = copied + sum(copying.written), left_out + copying.left_out
    ids = await topic_ids(after)
    await append(after, revision.next(state="ready", topics=ids, copy_of=""))
    return Copied(copied, left_out, renamed.shortened)


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
