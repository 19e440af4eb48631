"""Each way in which a label can be bad has its reason, and good labels are taken as they are."""

import pytest

from pipeline.records.bad import Reason
from pipeline.records.labels import MAX_BYTES, parse_label
from tests.records.reasons import reason_of


@pytest.mark.parametrize("label", ["1", "-1", "0", "-0", "null"])
def test_the_four_labels_are_taken(label: str) -> None:
    value = b'{"task": "t1", "worker": "w1", "label": %b}' % label.encode()
    expected = None if label == "null" else int(label)
    assert parse_label(value) == ("t1", "w1", expected)


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
    assert reason_of(parse_label, value) is reason


@pytest.mark.parametrize("task", ["x", "x" * 65, "x" * 256, "é" * 128, "🐦" * 64, "\0", " "])
def test_an_id_has_up_to_256_bytes_of_any_kind(task: str) -> None:
    value = (
        b'{"task": %b, "worker": "w1", "label": 1}'
        % b'"%b"'
        % task.encode().replace(b"\0", b"\\u0000")
    )
    assert parse_label(value) == (task, "w1", 1)


def test_unknown_fields_are_ignored_even_large_ones() -> None:
    value = b'{"more": "%b", "task": "t1", "worker": "w1", "label": 0}' % (b"x" * 900_000)
    assert parse_label(value) == ("t1", "w1", 0)


def test_of_a_field_given_twice_the_last_counts() -> None:
    assert parse_label(b'{"task":"a","label":2,"worker":"w","task":"b","label":1}') == ("b", "w", 1)
