"""Imports an export of Label Studio: sends only what differs from the labels topic."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer

from sbic.files.json_array import elements
from sbic.files.tables import BadFile
from sbic.foreign import shown
from sbic.integrations.label_studio import (
    Annotation,
    Annotations,
    Choices,
    Problem,
    Record,
    encode_record,
    read_annotation,
    read_record,
    read_row,
)
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.reader import Reader, reading
from sbic.kafka.writer import LabelSender, sending
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of


class AnnotationsFollower:
    """The annotations in the topic as of the last `catch_up`."""

    def __init__(self, settings: Settings, labels: Reader, asking: AIOKafkaConsumer) -> None:
        self.known = Annotations(settings.repeats)
        self._labels = labels
        self._asking = asking

    async def catch_up(self) -> AsyncIterator[int]:
        """Read up to the current end of the topic; yields the number of records of each portion."""
        await self._labels.move_end(self._asking)
        async for records in self._labels.to_the_end():
            for record in records:
                if found := read_record(record.value):
                    self.known.learn(found)
            yield len(records)

    async def remaining(self) -> int:
        """How many offsets remain up to the last known end."""
        return await self._labels.remaining()


@asynccontextmanager
async def following_annotations(settings: Settings) -> AsyncIterator[AnnotationsFollower]:
    """A connected follower that begins at the start of the topic."""
    topic = Topics(settings).labels.name
    async with (
        reading(settings, topic, from_start=True) as labels,
        connected(new_consumer(settings), settings) as asking,
    ):
        yield AnnotationsFollower(settings, labels, asking)


# Reads the annotations of a file exported by Label Studio, as JSON or JSON_MIN.


def read_export(
    path: str, choices: Choices, advance: Callable[[int], None] = lambda _: None
) -> Iterator[Annotation]:
    """Yield every annotation of the file, those of a task in the order of their last change.

    `advance` is called with the number of bytes read. Raises `BadFile` with the number of the task.
    """
    for number, element in enumerate(elements(path, advance), 1):
        if not isinstance(element, Mapping):
            raise BadFile(path, f"element {number} is not a task but {shown(element)}")
        try:
            yield from _annotations(element, choices)
        except Problem as problem:
            raise BadFile(path, f"element {number}, {problem}") from None


def _annotations(element: Mapping[str, Any], choices: Choices) -> list[Annotation]:
    if isinstance(found := element.get("annotations"), list):
        task = element.get("id")
        if not all(isinstance(each, Mapping) for each in found):
            raise Problem("its annotations are not objects")
        given = [read_annotation(each, choices, task) for each in found]
        return sorted(given, key=lambda annotation: (annotation.updated_at, annotation.id))
    if "annotation_id" in element:
        return [read_row(element, choices)]
    raise Problem("it has no annotations: export as JSON, or as JSON_MIN, with their ids")


# Imports an export of Label Studio: sends only what differs from the labels topic.


AT_ONCE = 5000


@dataclass
class Imported:
    """The outcome of an import; `labels` is the number of acknowledged records."""

    annotations: int = 0
    new: int = 0
    changed: int = 0
    deleted: int = 0
    labels: int = 0

    @property
    def unchanged(self) -> int:
        """Annotations that the topic already had, in this version or a later one."""
        return self.annotations - self.new - self.changed


@dataclass(frozen=True)
class Exported:
    """Files exported by Label Studio, and how to read them."""

    paths: Sequence[str]
    choices: Choices

    def annotations(self, title: str) -> Iterator[Annotation]:
        """Yield all annotations, with a progress bar; raises `BadFile`."""
        total = sum(path.stat().st_size for path in map(Path, self.paths) if path.is_file())
        with progress(title, total=total) as advance:
            for path in self.paths:
                yield from read_export(path, self.choices, advance)


async def import_annotations(
    settings: Settings, exported: Exported, done: Imported, *, prune: bool, dry_run: bool
) -> None:
    """Send what the topic does not have; with `prune`, take back what the files do not have.

    All files are checked before anything is sent; raises `BadFile`. `done` has the progress, even
    after an interruption. A dry run sends nothing.
    """
    newest = max((annotation.id for annotation in exported.annotations("Checking")), default=-1)
    async with following_annotations(settings) as follower:
        known = await _all_known(follower)
        changes = _changes(known, exported, done, prune_to=newest if prune else -1)
        if dry_run:
            for _ in changes:
                pass
            return
        async with sending(settings) as sender:
            while portion := list(islice(changes, AT_ONCE)):
                await _send(sender, portion)
                done.labels += len(portion)


async def _all_known(follower: AnnotationsFollower) -> Annotations:
    with progress("Reading", total=await follower.remaining()) as advance:
        async for records in follower.catch_up():
            advance(records)
    return follower.known


def _changes(
    known: Annotations, exported: Exported, done: Imported, prune_to: int
) -> Iterator[Record]:
    """The records to send: for the files, and then for annotations that were deleted.

    Annotations with a larger id than any in the files were created after the export, and stay.
    """
    missing = set(known.ids())
    for annotation in exported.annotations("Sending"):
        done.annotations += 1
        is_new = annotation.id not in known
        missing.discard(annotation.id)
        if records := known.given(annotation):
            done.new += is_new
            done.changed += not is_new
            yield from _learned(known, records)
    for name in sorted(name for name in missing if name <= prune_to):
        done.deleted += 1
        yield from _learned(known, known.deleted(name) or [])


def _learned(known: Annotations, records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        known.learn(record)
        yield record


async def _send(sender: LabelSender, records: Iterable[Record]) -> None:
    """Send records, each worker's in this order; they are acknowledged on return."""
    acknowledgements = []
    for record in records:
        key = record.slot.worker.encode()
        partition = partition_of(key, sender.partitions)
        value = encode_record(record)
        sent = await sender.producer.send(sender.topic, value, key=key, partition=partition)
        acknowledgements.append(sent)
    await asyncio.gather(*acknowledgements)
