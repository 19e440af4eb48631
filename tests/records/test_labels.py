"""Each way in which a label can be bad has its reason, and good labels are taken as they are."""

from collections.abc import Callable

import pytest

from sbic.classes import RETRACT, SIGNS, SKIP, Classes
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.labels import MAX_BYTES, CodedLabel, encode_label, label_parser
from tests.records.made import reason_of

PETS = Classes(("cat", "dog", "bird"))
parse_sign = label_parser(SIGNS)
parse_pet = label_parser(PETS)


@pytest.mark.parametrize(
    ("label", "code"), [("1", 1), ("-1", 0), ("0", SKIP), ("-0", SKIP), ("null", RETRACT)]
)
def test_the_four_labels_are_taken(label: str, code: int) -> None:
    value = b'{"task": "t1", "worker": "w1", "label": %b}' % label.encode()
    assert parse_sign(value) == ("t1", "w1", code)


@pytest.mark.parametrize(
    ("parse", "label", "code"),
    [
        (parse_sign, 1, 1),
        (parse_sign, -1, 0),
        (parse_sign, 0, SKIP),
        (parse_sign, None, RETRACT),
        (parse_pet, "cat", 0),
        (parse_pet, "bird", 2),
        (parse_pet, 0, SKIP),
        (parse_pet, None, RETRACT),
    ],
)
@pytest.mark.parametrize("task", ["t1", "x" * 256])
def test_a_label_is_the_number_of_its_class_or_a_code(
    parse: Callable[[bytes], CodedLabel], label: int | str | None, code: int, task: str
) -> None:
    assert parse(encode_label(task, "w1", label)) == (task, "w1", code)


@pytest.mark.parametrize(
    "label",
    [
        "true",
        "false",
        "1",
        "-1",
        "-2",
        "2",
        "0.0",
        "-0.0",
        '"0"',
        '""',
        '"Cat"',
        '"cat\\u0000"',
        '"null"',
        '["cat"]',
        "{}",
    ],
)
@pytest.mark.parametrize("task", ["t1", "x" * 256])
def test_with_names_nothing_else_is_a_label(label: str, task: str) -> None:
    value = f'{{"task": "{task}", "worker": "w1", "label": {label}}}'.encode()
    assert reason_of(parse_pet, value) is Reason.BAD_LABEL


@pytest.mark.parametrize("label", ["cat", "1", "-1", "0", 2, -2, True, False])
def test_with_signs_nothing_else_is_a_label(label: int | str) -> None:
    assert reason_of(parse_sign, encode_label("t1", "w1", label)) is Reason.BAD_LABEL


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        (SIGNS, "'label' must be 1, -1, 0 or null, not 'fish'"),
        (PETS, "'label' must be one of 'cat', 'dog', 'bird', 0 or null, not 'fish'"),
        (
            Classes(tuple(f"c{number}" for number in range(1000))),
            "'label' must be one of 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9', "
            "..., 0 or null, not 'fish'",
        ),
    ],
)
def test_the_message_says_which_labels_there_are(classes: Classes, problem: str) -> None:
    with pytest.raises(BadRecord) as bad:
        label_parser(classes)(encode_label("t1", "w1", "fish"))
    assert bad.value.message == problem


def test_the_message_is_short_whatever_the_classes_are_called() -> None:
    long_names = Classes(tuple(f"{number:02}" + "\x01" * 62 for number in range(20)))
    value = encode_label("t1", "w1", "x" * 1000)
    assert reason_of(label_parser(long_names), value) is Reason.BAD_LABEL


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"", Reason.NOT_JSON),
        (b"{", Reason.NOT_JSON),
        (b"t1,w1,1", Reason.NOT_JSON),
        (b'{"task": "\xff", "worker": "w1", "label": 1}', Reason.NOT_JSON),
        (b'{"task": "\\ud800", "worker": "w1", "label": 1}', Reason.NOT_JSON),
        (b'{"task": "t1", "worker": "w1", "label": NaN}', Reason.NOT_JSON),
        (b'{"task": "t1", "worker": "w1", "label": 1} {}', Reason.NOT_JSON),
        (b"[" * 5000, Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (b"1", Reason.NOT_OBJECT),
        (b'"task"', Reason.NOT_OBJECT),
        (b'["task", "worker", "label"]', Reason.NOT_OBJECT),
        (b"{}", Reason.MISSING_FIELD),
        (b'{"task": "t1", "worker": "w1"}', Reason.MISSING_FIELD),
        (b'{"task": "t1", "label": 1}', Reason.MISSING_FIELD),
        (b'{"worker": "w1", "label": 1}', Reason.MISSING_FIELD),
        (b'{"task": "", "worker": "w1", "label": 1}', Reason.BAD_ID),
        (b'{"task": "t1", "worker": "", "label": 1}', Reason.BAD_ID),
        (b'{"task": 1, "worker": "w1", "label": 1}', Reason.BAD_ID),
        (b'{"task": "t1", "worker": null, "label": 1}', Reason.BAD_ID),
        (b'{"task": "%b", "worker": "w1", "label": 1}' % (b"x" * 300), Reason.BAD_ID),
        (b'{"task": "t1", "worker": "%b", "label": 1}' % ("é" * 129).encode(), Reason.BAD_ID),
        (b'{"task": "t1", "worker": "w1", "label": 2}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": true}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": false}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": "1"}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": 1.0}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": 1e0}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": [1]}', Reason.BAD_LABEL),
        (b'{"task": "t1", "worker": "w1", "label": 1}' + b" " * MAX_BYTES, Reason.TOO_LARGE),
    ],
    ids=lambda part: repr(part)[:50],
)
def test_a_bad_label_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_sign, value) is reason
    assert reason_of(parse_pet, value) is reason


@pytest.mark.parametrize("task", ["x", "x" * 65, "x" * 256, "é" * 128, "🐦" * 64, "\0", " "])
def test_an_id_has_up_to_256_bytes_of_any_kind(task: str) -> None:
    value = (
        b'{"task": %b, "worker": "w1", "label": 1}'
        % b'"%b"'
        % task.encode().replace(b"\0", b"\\u0000")
    )
    assert parse_sign(value) == (task, "w1", 1)


def test_unknown_fields_are_ignored_even_large_ones() -> None:
    value = b'{"more": "%b", "task": "t1", "worker": "w1", "label": 0}' % (b"x" * 900_000)
    assert parse_sign(value) == ("t1", "w1", SKIP)


def test_of_a_field_given_twice_the_last_counts() -> None:
    assert parse_sign(b'{"task":"a","label":2,"worker":"w","task":"b","label":1}') == ("b", "w", 1)
