"""All annotations in the labels topic, and the labels to send when Label Studio changes one.

The answer that stands in the pipeline has to be the one that Label Studio has: of the annotations
of one worker on one task, with `SBIC_REPEATS=first` the oldest that is not a skip, with `last` the
one that was created or updated last. All state comes from the labels topic, so several gateways and
`sbic import` can take turns.
"""

from typing import Literal

from pipeline.label_studio.annotation import Annotation, Slot
from pipeline.label_studio.record import Record


class Annotations:
    """The annotations in the topic: about 500 bytes for each.

    >>> known = Annotations("first")
    >>> cat = Annotation(16, Slot("5", "1"), "cat", updated_at=1)
    >>> known.given(cat)
    [Record(slot=Slot(task='5', worker='1'), label='cat', annotation=16, updated_at=1)]
    >>> for record in known.given(cat):
    ...     known.learn(record)
    >>> known.given(cat)
    []
    >>> known.deleted(16)
    [Record(slot=Slot(task='5', worker='1'), label=None, annotation=16, updated_at=0)]
    """

    def __init__(self, repeats: Literal["first", "last"]) -> None:
        self._replaces = repeats == "last"
        self._by_id: dict[int, Annotation] = {}
        self._in_slot: dict[Slot, tuple[int, ...]] = {}  # in the order of their last records
        self._deleted: set[int] = set()  # Label Studio never reuses an id
        self._names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, annotation: int) -> bool:
        return annotation in self._by_id

    def ids(self) -> list[int]:
        """The ids of all annotations, in the order of arrival."""
        return list(self._by_id)

    def learn(self, record: Record) -> None:
        """Process a record of the labels topic, each partition's in order."""
        name = record.annotation
        if name is None or name in self._deleted:
            return
        known = self._by_id.get(name)
        if record.label is None:
            self._deleted.add(name)
            self._remove(known)
            return
        if known and known.slot != record.slot and known.updated_at > record.updated_at:
            return  # it moved to another worker, whose partition was read first
        self._remove(known)
        task, worker = record.slot
        slot = Slot(self._names.setdefault(task, task), self._names.setdefault(worker, worker))
        self._by_id[name] = Annotation(name, slot, record.label, record.updated_at)
        self._in_slot[slot] = (*self._in_slot.get(slot, ()), name)

    def given(self, new: Annotation) -> list[Record]:
        """The records to send for an annotation that was created, updated or exported."""
        known = self._by_id.get(new.id)
        if new.id in self._deleted or (known and known.updated_at > new.updated_at):
            return []  # the topic has a newer one
        before = self._standing(new.slot)
        after = self._winner([*self._others(new.slot, new.id), new])
        if (
            known
            and (known.slot, known.label) == (new.slot, new.label)
            and (known.updated_at == new.updated_at or before == known or after != new)
        ):
            return []  # the topic has it
        moved = self._taken_back(known) if known and known.slot != new.slot else []
        return moved + self._changed(before, Record.of(new), after)

    def deleted(self, annotation: int) -> list[Record] | None:
        """The records to send for a deleted annotation; None if the topic never had it."""
        known = self._by_id.get(annotation)
        if known is None:
            return [] if annotation in self._deleted else None
        return [Record(known.slot, None, annotation), *self._instead_of(known)]

    def _changed(
        self, before: Annotation | None, record: Record, after: Annotation | None
    ) -> list[Record]:
        """The record, and those that are needed for `after` to stand in place of `before`."""
        stands = before.label if before else None
        if record.label != 0 and (stands is None or self._replaces):
            stands = record.label
        if stands == (after.label if after else None):
            return [record]
        empty = Record(record.slot, None)
        if after and after.id == record.annotation:
            return [empty, record]
        return [record, empty, *([Record.of(after)] if after else [])]

    def _taken_back(self, known: Annotation) -> list[Record]:
        """Take back the label of an annotation that moves to another slot."""
        if self._standing(known.slot) != known:
            return []
        return [Record(known.slot, None), *self._instead_of(known)]

    def _instead_of(self, gone: Annotation) -> list[Record]:
        winner = self._winner(self._others(gone.slot, gone.id))
        return [Record.of(winner)] if winner else []

    def _standing(self, slot: Slot) -> Annotation | None:
        return self._winner([self._by_id[name] for name in self._in_slot.get(slot, ())])

    def _others(self, slot: Slot, but: int) -> list[Annotation]:
        return [self._by_id[name] for name in self._in_slot.get(slot, ()) if name != but]

    def _winner(self, annotations: list[Annotation]) -> Annotation | None:
        """The annotation of a slot that has to stand; of equally late ones, the last to arrive."""
        answers = [annotation for annotation in annotations if annotation.label != 0]
        if not answers:
            return None
        if self._replaces:
            return max(reversed(answers), key=lambda annotation: annotation.updated_at)
        return min(answers)

    def _remove(self, known: Annotation | None) -> None:
        if known is None:
            return
        del self._by_id[known.id]
        left = tuple(name for name in self._in_slot[known.slot] if name != known.id)
        if left:
            self._in_slot[known.slot] = left
        else:
            del self._in_slot[known.slot]
