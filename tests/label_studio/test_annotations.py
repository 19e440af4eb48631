"""Whatever happens in Label Studio, the labels that are sent make the pipeline agree with it."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sbic.integrations.label_studio import (
    Annotation,
    Annotations,
    Record,
    Slot,
    encode_record,
    read_record,
)
from tests.examples import examples

Repeats = Literal["first", "last"]
Change = tuple[str, int, str, int | str]


class LabelStudioRules:
    """Its annotations, and the pipeline that hears of them: the rules of both, written plainly."""

    def __init__(self, repeats: Repeats) -> None:
        self.repeats = repeats
        self.exists: dict[int, Annotation] = {}
        self.clock = 0
        self.topic: list[Record] = []
        self.stands: dict[Slot, int | str] = {}
        self.known = Annotations(repeats)

    def send(self, records: list[Record]) -> None:
        for record in records:
            self.topic.append(record)
            named = read_record(encode_record(record))
            if named:
                self.known.learn(named)
            if record.label is None:
                self.stands.pop(record.slot, None)
            elif record.label != 0 and (self.repeats == "last" or record.slot not in self.stands):
                self.stands[record.slot] = record.label

    def write(self, name: int, worker: str, label: int | str) -> Annotation:
        self.clock += 1
        self.exists[name] = Annotation(name, Slot("task", worker), label, self.clock)
        return self.exists[name]

    def expected(self) -> dict[Slot, int | str]:
        """What is to stand: of each worker's annotations that are answers the first, or last."""
        by_age = sorted(self.exists.values(), key=lambda each: (each.id, each.updated_at))
        if self.repeats == "first":
            by_age.reverse()
        else:
            by_age.sort(key=lambda each: each.updated_at)
        return {each.slot: each.label for each in by_age if each.label != 0}


kinds = some.sampled_from(["create", "update", "change hands", "delete", "post again"])
workers = some.sampled_from(["ann", "bob"])
labels = some.sampled_from(["cat", "dog", "bird", 0])
repeats_of = some.sampled_from(["first", "last"])
changes = some.lists(
    some.tuples(kinds, some.integers(0, 5), workers, labels),
    max_size=25,
)


def happens(studio: LabelStudioRules, change: Change, *, heard: bool = True) -> None:
    """One change in Label Studio; ids are given in order and never again."""
    what, which, worker, label = change
    if what == "create" or not studio.exists:
        name = 1 + studio.clock
    else:
        name = sorted(studio.exists)[which % len(studio.exists)]
    if what == "delete":
        studio.exists.pop(name, None)
        if heard:
            studio.send(studio.known.deleted(name) or [])
        return
    if what == "update":
        worker = studio.exists[name].slot.worker if name in studio.exists else worker
    if what != "post again" or name not in studio.exists:
        studio.write(name, worker, label)
    if heard:
        studio.send(studio.known.given(studio.exists[name]))


@given(changes, repeats_of)
@examples(300)
def test_what_stands_is_what_label_studio_has(happening: list[Change], repeats: Repeats) -> None:
    studio = LabelStudioRules(repeats)
    for change in happening:
        happens(studio, change)
        assert studio.stands == studio.expected()


@given(changes, some.lists(some.booleans(), min_size=25, max_size=25), repeats_of)
@examples(300)
def test_an_export_fills_in_whatever_was_missed_and_once(
    happening: list[Change], heard: list[bool], repeats: Repeats
) -> None:
    studio = LabelStudioRules(repeats)
    for change, is_heard in zip(happening, heard, strict=False):
        happens(studio, change, heard=is_heard)

    def import_export() -> int:
        before = len(studio.topic)
        for annotation in sorted(studio.exists.values(), key=lambda each: each.updated_at):
            studio.send(studio.known.given(annotation))
        for name in set(studio.known.ids()) - set(studio.exists):
            studio.send(studio.known.deleted(name) or [])
        return len(studio.topic) - before

    import_export()
    assert studio.stands == studio.expected()
    assert import_export() == 0


@given(changes, repeats_of)
def test_everything_created_and_then_deleted_leaves_nothing(
    happening: list[Change], repeats: Repeats
) -> None:
    studio = LabelStudioRules(repeats)
    for change in [*happening, *[("delete", 0, "", 0)] * 25]:
        happens(studio, change)
    assert (studio.stands, len(studio.known)) == ({}, 0)


@given(changes, repeats_of, some.booleans())
def test_the_topic_says_it_all_whichever_partition_is_read_first(
    happening: list[Change], repeats: Repeats, is_turned: bool
) -> None:
    studio = LabelStudioRules(repeats)
    for change in happening:
        happens(studio, change)
    restored = Annotations(repeats)
    for worker in sorted(["ann", "bob"], reverse=is_turned):
        for record in studio.topic:
            if record.slot.worker == worker and (named := read_record(encode_record(record))):
                restored.learn(named)
    assert sorted(restored.ids()) == sorted(studio.exists)
    for annotation in studio.exists.values():
        assert restored.given(annotation) == []
    for name in restored.ids():
        assert restored.deleted(name) == studio.known.deleted(name)


@pytest.mark.parametrize("repeats", ["first", "last"])
def test_annotations_without_a_time_are_not_sent_again_either(repeats: Repeats) -> None:
    known = Annotations(repeats)
    both = [
        Annotation(name, Slot("5", "ann"), label, 0) for name, label in ((1, "cat"), (2, "dog"))
    ]
    for _ in range(2):
        sent = [record for annotation in both for record in known.given(annotation)]
        for record in sent:
            known.learn(record)
    assert sent == []


def test_what_is_older_than_the_topic_changes_nothing() -> None:
    known = Annotations("last")
    known.learn(Record(Slot("5", "ann"), "dog", 16, updated_at=2))
    assert known.given(Annotation(16, Slot("5", "ann"), "cat", updated_at=1)) == []
    known.learn(Record(Slot("5", "ann"), None, 16))
    assert known.given(Annotation(16, Slot("5", "ann"), "cat", updated_at=3)) == []


def test_the_deletion_of_what_the_topic_never_had_is_told_and_a_second_one_is_nothing() -> None:
    known = Annotations("first")
    assert known.deleted(16) is None
    known.learn(Record(Slot("5", "ann"), "dog", 16, updated_at=2))
    for record in known.deleted(16) or []:
        known.learn(record)
    assert known.deleted(16) == []


def test_fields_of_the_same_name_that_others_write_are_not_annotations() -> None:
    for field in ("5", "null", "[]", "{}", '{"annotation":"x"}', '{"annotation":true}'):
        value = f'{{"task":"t","worker":"w","label":1,"label_studio":{field}}}'
        assert read_record(value.encode()) is None
    assert read_record(b'{"label_studio"') is None
    assert read_record(None) is None
