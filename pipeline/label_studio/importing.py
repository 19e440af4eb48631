"""Imports an export of Label Studio: sends only what differs from the labels topic."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipeline.kafka.sending import LabelSender, sending
from pipeline.label_studio.annotation import Annotation
from pipeline.label_studio.annotations import Annotations
from pipeline.label_studio.choices import Choices
from pipeline.label_studio.export import read_export
from pipeline.label_studio.follower import AnnotationsFollower, following_annotations
from pipeline.label_studio.record import Record, encode_record
from pipeline.partitioner import partition_of
from pipeline.progress import progress
from pipeline.settings import Settings

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
