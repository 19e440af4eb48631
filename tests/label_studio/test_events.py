"""A webhook's payload, as Label Studio sends it, becomes annotations given or deleted."""

from typing import Any

import pytest

from sbic.classes import Classes
from sbic.integrations.label_studio import (
    Annotation,
    Choices,
    Event,
    Problem,
    Slot,
    label_map_of,
    microseconds,
    read_event,
    read_record,
)
from sbic.wire.bad import BadRecord
from sbic.wire.labels import label_parser
from tests.label_studio.payloads import annotation, choice, deletion, skipped, webhook

PETS = Choices(Classes.parse("cat,dog"))
SIGN_CHOICES = Choices(Classes.parse("-1,1"))
AT = microseconds("2021-08-17T13:00:48.536303Z")


def test_an_annotation_created_is_a_label() -> None:
    event = read_event(webhook("ANNOTATION_CREATED", annotation(17, "cat")), PETS)
    assert event == Event(created=(Annotation(17, Slot("19", "1"), "cat", AT),))


def test_an_annotation_updated_is_another_answer() -> None:
    event = read_event(webhook("ANNOTATION_UPDATED", annotation(17, "dog")), PETS)
    assert event == Event(updated=(Annotation(17, Slot("19", "1"), "dog", AT),))


def test_annotations_deleted_have_nothing_but_ids() -> None:
    assert read_event(deletion(17, 18), PETS) == Event(deleted=(17, 18))
    single = {"action": "ANNOTATION_DELETED", "id": 17, "project": {}}
    assert read_event(single, PETS) == Event(deleted=(17,))


@pytest.mark.parametrize("field", ["annotation", "annotations"])
def test_annotations_created_together_are_several_labels(field: str) -> None:
    payload = webhook("ANNOTATIONS_CREATED", None) | {"task": [{"id": 19}, {"id": 20}]}
    del payload["annotation"]
    payload[field] = [annotation(17, "cat"), annotation(18, "dog", task=20, worker=2)]
    first, second = read_event(payload, PETS).created
    assert (first.slot, first.label) == (("19", "1"), "cat")
    assert (second.slot, second.label) == (("20", "2"), "dog")


@pytest.mark.parametrize(
    "given", [skipped(), annotation(17)], ids=["cancelled", "without a choice"]
)
def test_a_skipped_or_an_empty_annotation_is_a_skip(given: dict[str, Any]) -> None:
    (found,) = read_event(webhook("ANNOTATION_CREATED", given), PETS).created
    assert found.label == 0


@pytest.mark.parametrize(
    "action", ["PROJECT_UPDATED", "TASKS_CREATED", "TASKS_DELETED", "SOMETHING_NEW"]
)
def test_other_actions_are_nothing(action: str) -> None:
    assert read_event({"action": action, "tasks": [{"id": 1}]}, PETS) == Event()


@pytest.mark.parametrize(
    ("task", "worker"),
    [
        (19, 1),
        ("19", "1"),
        ({"id": 19}, {"id": 1, "email": "ann@example.org"}),
    ],
    ids=["numbers", "strings", "objects"],
)
def test_ids_become_text_however_they_come(task: object, worker: object) -> None:
    given = annotation(17, "cat", task=task, worker=worker)
    assert read_event(webhook("ANNOTATION_CREATED", given), PETS).created[0].slot == ("19", "1")


def test_the_task_around_an_annotation_is_its_task_if_it_names_none() -> None:
    given = annotation(17, "cat")
    del given["task"]
    assert read_event(webhook("ANNOTATION_CREATED", given), PETS).created[0].slot == ("19", "1")


def test_one_control_of_several_is_chosen_by_name() -> None:
    given = annotation(17, "cat")
    given["result"] += [
        choice("sharp", "quality"),
        {"from_name": "pet", "type": "textarea", "value": {"text": ["a cat"]}},
    ]
    payload = webhook("ANNOTATION_CREATED", given)
    assert read_event(payload, Choices(PETS.classes, "pet")).created[0].label == "cat"
    assert read_event(payload, Choices(PETS.classes, "colour")).created[0].label == 0
    (found,) = read_event(payload, PETS).unusable
    assert "annotation 17: several controls have choices ('pet', 'quality')" in found.problem


@pytest.mark.parametrize(("name", "label"), [("1", 1), ("-1", -1), ("0", 0)])
def test_choices_may_be_signs(name: str, label: int) -> None:
    payload = webhook("ANNOTATION_CREATED", annotation(17, name))
    assert read_event(payload, SIGN_CHOICES).created[0].label == label


def test_choices_are_mapped_to_labels() -> None:
    choices = Choices(
        SIGN_CHOICES.classes, label_map=label_map_of("Yes:1,No:-1,a:b:0", SIGN_CHOICES.classes)
    )
    labels = [
        read_event(webhook("ANNOTATION_CREATED", annotation(17, name)), choices).created[0].label
        for name in ("Yes", "No", "a:b")
    ]
    assert labels == [1, -1, 0]


@pytest.mark.parametrize("text", ["", "Yes", "Yes:2", ":1", "Yes:1,,No:-1"])
def test_a_map_to_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        label_map_of(text, SIGN_CHOICES.classes)


BAD: dict[str, tuple[object, str]] = {
    "not an object": ([], "with an 'action'"),
    "no action": ({"annotation": annotation()}, "with an 'action'"),
    "no payload": ({"action": "ANNOTATION_CREATED"}, "switch on 'Send payload' in the webhook"),
    "no deletions": ({"action": "ANNOTATIONS_DELETED"}, "switch on 'Send payload' in the webhook"),
    "no id": (webhook("ANNOTATION_CREATED", annotation() | {"id": None}), "has no id"),
    "nobody": (webhook("ANNOTATION_CREATED", annotation(worker=None)), "'completed_by' must be"),
    "long id": (webhook("ANNOTATION_CREATED", annotation(task="x" * 257)), "257 bytes"),
    "no text": (webhook("ANNOTATION_CREATED", annotation(task="\ud800")), "surrogates"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_refused_with_what_is_wrong(case: str) -> None:
    payload, problem = BAD[case]
    with pytest.raises(Problem, match=problem):
        read_event(payload, PETS)


UNUSABLE: dict[str, tuple[object, str]] = {
    "no class": (webhook("ANNOTATION_CREATED", annotation(17, "fish")), "'fish' is not one of"),
    "two regions": (webhook("ANNOTATION_CREATED", annotation(17, "cat", "cat")), "2 results"),
    "no results": (
        webhook("ANNOTATION_CREATED", annotation() | {"result": None}),
        "must be a list",
    ),
    "two choices": (
        webhook(
            "ANNOTATION_CREATED",
            annotation() | {"result": [choice("") | {"value": {"choices": ["cat", "dog"]}}]},
        ),
        "2 choices at once",
    ),
    "no choices": (
        webhook("ANNOTATION_CREATED", annotation() | {"result": [choice("") | {"value": 5}]}),
        "'choices' must be a list",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_has_no_label_is_kept_with_what_is_wrong_and_never_read_as_a_label(case: str) -> None:
    payload, problem = UNUSABLE[case]
    event = read_event(payload, PETS)
    (found,) = event.unusable
    assert event == Event(unusable=(found,))
    assert found.slot == Slot("19", "1")
    assert problem in found.problem
    with pytest.raises(BadRecord, match="'label' must be"):
        label_parser(PETS.classes)(found.encode())
    assert read_record(found.encode()) is None


def test_what_has_no_label_makes_a_small_record() -> None:
    payload = webhook("ANNOTATION_CREATED", annotation(17, *(100 * ["x" * 5000])))
    (found,) = read_event(payload, PETS).unusable
    assert len(found.encode()) < 5000
