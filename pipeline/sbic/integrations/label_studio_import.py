"""Imports annotations, such as an export of Label Studio: sends what differs from the topic."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from sys import maxsize
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer

from sbic.files.json_array import elements
from sbic.files.tables import MAX_SIZE, BadFile
from sbic.foreign import shown
from sbic.integrations.label_studio import (
    LABEL_STUDIO,
    Annotation,
    Annotations,
    Choices,
    Problem,
    Record,
    Tool,
    annotation_id,
    encode_record,
    read_annotation,
    read_record,
    read_row,
)
from sbic.kafka.connect import connected
from sbic.kafka.reader import Reader, committed_consumer, reading
from sbic.kafka.writer import sending
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import Row


class AnnotationsFollower:
    """The annotations in the topic as of the last `catch_up`."""

    def __init__(
        self, settings: Settings, labels: Reader, asking: AIOKafkaConsumer, tool: Tool
    ) -> None:
        self.known = Annotations(settings.repeats, tool)
        self._tool = tool
        self._labels = labels
        self._asking = asking

    async def catch_up(self) -> AsyncIterator[int]:
        """Read up to the current end of the topic; yields the number of records of each portion."""
        await self._labels.move_end(self._asking)
        async for records in self._labels.to_the_end():
            for record in records:
                if found := read_record(record.value, self._tool):
                    self.known.learn(found)
            yield len(records)

    async def remaining(self) -> int:
        """How many offsets remain up to the last known end."""
        return await self._labels.remaining()


@asynccontextmanager
async def following_annotations(
    settings: Settings, tool: Tool = LABEL_STUDIO
) -> AsyncIterator[AnnotationsFollower]:
    """Connect a follower of the annotations of a tool that begins at the start of the topic."""
    topic = Topics(settings).labels.name
    async with (
        reading(settings, topic, from_start=True) as labels,
        connected(committed_consumer(settings), settings) as asking,
    ):
        yield AnnotationsFollower(settings, labels, asking, tool)


# Reads the annotations of a file exported by Label Studio, as JSON or JSON_MIN.


class Unused(NamedTuple):
    """What cannot be used of a file, and why; with the id of the annotation, if it has one."""

    id: int | None
    problem: str


def read_export(
    path: str,
    choices: Choices,
    advance: Callable[[int], None] = lambda _: None,
    max_size: int = MAX_SIZE,
) -> Iterator[Annotation | Unused]:
    """Yield every annotation of the file, those of a task in the order of their last change.

    `advance` is called with the number of bytes read. Raises `BadFile` if it is not a JSON array.
    """
    for number, element in enumerate(elements(path, advance, max_size), 1):
        where = f"{path}: element {number}"
        if not isinstance(element, Mapping):
            yield Unused(None, f"{where} is not a task but {shown(element)}")
        elif isinstance(found := element.get("annotations"), list):
            yield from _annotations(found, element.get("id"), choices, where)
        elif "annotation_id" in element:
            yield _read(partial(read_row, element, choices), element.get("annotation_id"), where)
        else:
            way_out = "export as JSON, or as JSON_MIN, with their ids"
            yield Unused(None, f"{where}, it has no annotations: {way_out}")


def _annotations(
    found: list[Any], task: object, choices: Choices, where: str
) -> Iterator[Annotation | Unused]:
    """Yield the annotations of a task: first those that cannot be used, then the others by time."""
    given: list[Annotation] = []
    for each in found:
        if not isinstance(each, Mapping):
            yield Unused(None, f"{where}, an annotation is not an object but {shown(each)}")
            continue
        read = _read(partial(read_annotation, each, choices, task), each.get("id"), where)
        if isinstance(read, Unused):
            yield read
        else:
            given.append(read)
    yield from sorted(given, key=lambda annotation: (annotation.updated_at, annotation.id))


def _read(read: Callable[[], Annotation], name: object, where: str) -> Annotation | Unused:
    try:
        return read()
    except Problem as problem:
        reason = f"{where}, {problem}"
    try:
        return Unused(annotation_id(name), reason)
    except Problem:
        return Unused(None, reason)


AT_ONCE = 5000
REASONS_MOST = 20  # of annotations that cannot be used


@dataclass
class Imported:
    """The outcome of an import; `labels` is the number of acknowledged records.

    `unused` counts what could not be used, `reasons` are those of the first ones.
    """

    annotations: int = 0
    new: int = 0
    changed: int = 0
    deleted: int = 0
    labels: int = 0
    unused: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def unchanged(self) -> int:
        """Annotations that the topic already had, in this version or a later one."""
        return self.annotations - self.new - self.changed


class AnnotationSource(Protocol):
    """Annotations to import, which can be read twice."""

    @property
    def tool(self) -> Tool:
        """The tool that has them."""

    @property
    def has_all(self) -> bool:
        """Whether an annotation with a later id than any of these was deleted, too."""

    def annotations(self, title: str) -> Iterator[Annotation | Unused]:
        """Yield all annotations, with a progress bar; raises `BadFile`."""


@dataclass(frozen=True)
class Exported:
    """Files exported by Label Studio, and how to read them."""

    paths: Sequence[str]
    choices: Choices
    max_size: int = MAX_SIZE
    tool: Tool = LABEL_STUDIO
    has_all: bool = False  # some may be newer than the export

    def annotations(self, title: str) -> Iterator[Annotation | Unused]:
        """Yield all annotations, with a progress bar; raises `BadFile`."""
        total = sum(path.stat().st_size for path in map(Path, self.paths) if path.is_file())
        with progress(title, total=total) as advance:
            for path in self.paths:
                yield from read_export(path, self.choices, advance, self.max_size)


async def import_annotations(
    settings: Settings, source: AnnotationSource, done: Imported, *, prune: bool, dry_run: bool
) -> None:
    """Send what the topic does not have; with `prune`, take back what the source does not have.

    All of it is read before anything is sent; raises `BadFile`. `done` has the progress, even
    after an interruption. A dry run sends nothing.
    """
    newest = _checked(source, done, prune)
    if source.has_all:
        newest = maxsize
    async with following_annotations(settings, source.tool) as follower:
        known = await _all_known(follower)
        changes = _changes(known, source, done, prune_to=newest if prune else -1)
        if dry_run:
            for _ in changes:
                pass
            return
        async with sending(settings) as sender:
            while portion := list(islice(changes, AT_ONCE)):
                rows = [
                    Row(each.slot.worker.encode(), encode_record(each, source.tool))
                    for each in portion
                ]
                await sender.writer.send(sender.topic, rows)
                done.labels += len(portion)


def _checked(source: AnnotationSource, done: Imported, prune: bool) -> int:
    """Read all, and note what cannot be used; returns the largest id of an annotation."""
    newest, usable = -1, False
    for found in source.annotations("Checking"):
        newest = max(newest, -1 if found.id is None else found.id)
        if isinstance(found, Annotation):
            usable = True
            continue
        if prune and found.id is None:
            raise BadFile(found.problem, "with --prune every annotation needs its id")
        done.unused += 1
        if len(done.reasons) < REASONS_MOST:
            done.reasons.append(found.problem)
    if done.unused and not usable:
        raise BadFile(done.reasons[0], f"none of {done.unused:,} can be used, and nothing was sent")
    return newest


async def _all_known(follower: AnnotationsFollower) -> Annotations:
    with progress("Reading", total=await follower.remaining()) as advance:
        async for records in follower.catch_up():
            advance(records)
    return follower.known


def _changes(
    known: Annotations, source: AnnotationSource, done: Imported, prune_to: int
) -> Iterator[Record]:
    """Yield the records to send: for the source, and then for annotations that were deleted.

    Those with a larger id than `prune_to` were created after an export, and stay. So does the last
    answer of one that cannot be used now.
    """
    missing = set(known.ids())
    for annotation in source.annotations("Sending"):
        if isinstance(annotation, Unused):
            missing.discard(-1 if annotation.id is None else annotation.id)
            continue
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
