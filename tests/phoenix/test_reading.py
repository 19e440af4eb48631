"""Annotations of Phoenix as labels: what is known of those whose ids are given again."""

from typing import Literal

import pytest

from sbic.classes import Classes
from sbic.integrations.label_studio import (
    LABEL_STUDIO,
    Annotation,
    Annotations,
    Choices,
    Problem,
    Record,
    Slot,
    encode_record,
    read_record,
)
from sbic.integrations.phoenix import PHOENIX, label_of, number_of

OLD = Annotation(16, Slot("a", "ann"), "cat", updated_at=1)
NEW = Annotation(16, Slot("b", "bob"), "dog", updated_at=2)


def learned(known: Annotations, records: list[Record]) -> list[Record]:
    """Learn records as another import reads them from the topic."""
    for record in records:
        if named := read_record(encode_record(record, PHOENIX), PHOENIX):
            known.learn(named)
    return records


@pytest.mark.parametrize("repeats", ["first", "last"])
def test_an_id_that_is_given_again_is_another_annotation(
    repeats: Literal["first", "last"],
) -> None:
    known = Annotations(repeats, PHOENIX)
    learned(known, known.given(OLD))
    of_ann = [Record.of(OLD), *learned(known, known.deleted(16) or [])]
    of_bob = learned(known, known.given(NEW))
    assert (of_ann[1:], of_bob) == ([Record(OLD.slot, None, 16)], [Record.of(NEW)])
    # they are in two partitions, of which either may be read first
    for records in (of_ann + of_bob, of_bob + of_ann):
        restored = Annotations(repeats, PHOENIX)
        learned(restored, records)
        assert restored.given(NEW) == []
        assert restored.deleted(16) == [Record(NEW.slot, None, 16)]


def test_a_label_of_one_tool_is_none_of_the_other() -> None:
    of_phoenix, of_studio = encode_record(Record.of(OLD), PHOENIX), encode_record(Record.of(OLD))
    assert read_record(of_phoenix, LABEL_STUDIO) is read_record(of_studio, PHOENIX) is None


def test_a_result_is_a_label_a_skip_or_a_problem() -> None:
    choices = Choices(Classes.parse("cat,dog"), label_map={"Katze": "cat"}, what="label")
    assert [label_of({"label": each}, choices) for each in ("dog", "Katze")] == ["dog", "cat"]
    assert [label_of(each, choices) for each in (None, {}, {"label": None, "score": None})] == [
        0
    ] * 3
    for result, problem in (
        ({"label": "fish"}, "the label 'fish' is not one of"),
        ({"label": None, "score": 0}, "it has a score, 0, and no label"),
    ):
        with pytest.raises(Problem, match=problem):
            label_of(result, choices)


@pytest.mark.parametrize("name", [None, 3, "", "17x", "U3BhbkFubm90YXRpb246", "é"])
def test_what_is_no_id_is_a_problem(name: object) -> None:
    with pytest.raises(Problem, match="it has no id"):
        number_of(name)
