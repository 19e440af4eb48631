"""Arbitrary bytes on a topic raise `BadRecord` and nothing else."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.classes import SIGNS, Classes
from sbic.wire.assignments import parse_assignment, parse_request
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.changelogs import Facts, encode_facts, parse_answers, read_facts
from sbic.wire.columns import Columns, Names
from sbic.wire.dead_letters import MAX_BYTES, Origin, dead_letter, read_headers, replayed_mark
from sbic.wire.estimates import parse_estimates
from sbic.wire.labels import label_parser
from sbic.wire.posteriors import posterior_parser
from sbic.wire.tasks import task_parser
from sbic.wire.votes import parse_votes
from sbic.wire.workers import read_worker
from tests.records.made import reason_of

PETS = Classes(("t1", "task"))
PARSERS = [
    parse_assignment,
    label_parser(SIGNS),
    label_parser(PETS),
    posterior_parser(SIGNS),
    posterior_parser(PETS),
    parse_request,
    parse_answers,
    partial(parse_votes, classes=2),
    partial(parse_estimates, classes=2),
]
FIELDS = (
    b"task worker label log_odds labels sources updated_at status reason gold evidence prior "
    b"count id expires_at source votes prediction confidence probabilities t1"
).split()
some_bytes = st.binary() | st.none()
json_values = st.recursive(
    st.sampled_from([b"null", b"1", b"-1.5", b"1e999", b'"t1"', b'""', b'"\\ud800"', b"true"]),
    lambda inner: st.one_of(
        st.lists(inner).map(lambda parts: b"[%b]" % b",".join(parts)),
        st.dictionaries(st.sampled_from(FIELDS), inner).map(
            lambda fields: b"{%b}" % b",".join(b'"%b":%b' % field for field in fields.items())
        ),
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("parse", PARSERS)
@given(value=some_bytes | json_values)
def test_no_value_raises_anything_else(
    parse: Callable[[bytes | None], object], value: bytes | None
) -> None:
    with suppress(BadRecord):
        parse(value)


@pytest.mark.parametrize("parse", [task_parser(SIGNS), task_parser(PETS)])
@given(key=some_bytes, value=some_bytes | json_values)
def test_no_key_of_a_task_raises_anything_else(
    parse: Callable[[bytes | None, bytes | None], object], key: bytes | None, value: bytes | None
) -> None:
    with suppress(BadRecord):
        parse(key, value)


DEEP = b"[" * 1020 + b"]" * 1020


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("parse", PARSERS)
def test_a_deep_value_in_any_field_is_refused_like_any_other(
    parse: Callable[[bytes | None], object], field: bytes
) -> None:
    fields = dict.fromkeys(FIELDS, b'"t1"') | {field: DEEP}
    value = b"{%b}" % b",".join(b'"%b":%b' % pair for pair in fields.items())
    reasons: list[Reason] = []
    try:
        parse(value)
    except BadRecord as bad:
        reasons.append(bad.reason)
    assert Reason.UNREADABLE not in reasons


def fails(*args: object) -> NoReturn:
    raise RecursionError


def with_classes(parse: Callable[..., object]) -> Callable[..., object]:
    return partial(parse, classes=2)


def parse_facts(value: bytes | None) -> object:
    return read_facts(Columns(value))


FACTS = encode_facts(Facts(0, [], Names.of([])))
FAULTS: list[tuple[Callable[..., object], bytes, str]] = [
    (label_parser(SIGNS), b"{}", "bad.loads"),
    (
        label_parser(SIGNS),
        b'{"task": "t", "worker": "w", "label": []}',
        "labels.shown",
    ),
    (parse_request, b"{}", "bad.loads"),
    (parse_request, b'{"worker": "w", "count": []}', "assignments.shown"),
    (partial(task_parser(SIGNS), b"t"), b"{}", "bad.loads"),
    (
        partial(task_parser(SIGNS), b"t"),
        b'{"task": "t", "gold": []}',
        "tasks.shown",
    ),
    (parse_assignment, b"{}", "bad.loads"),
    (posterior_parser(SIGNS), b"{}", "posteriors.read_id"),
    (posterior_parser(PETS), b"{}", "posteriors.read_shallow"),
    (read_worker, b"{}", "bad.loads"),
    (parse_answers, b"{}", "columns.loads"),
    (with_classes(parse_votes), b"{}", "columns.loads"),
    (with_classes(parse_estimates), b"{}", "columns.loads"),
    (parse_facts, FACTS, "changelogs.read_names"),
]


@pytest.mark.parametrize(("parse", "value", "part"), FAULTS)
def test_an_unknown_fault_of_a_parser_costs_one_record(
    parse: Callable[..., object], value: bytes, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"sbic.wire.{part}", fails)
    assert reason_of(parse, value) == Reason.UNREADABLE


# A dead letter has the bad record byte by byte, unless it is too large to keep.


BAD = BadRecord(Reason.NOT_JSON, "the value is not JSON")


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (b"w1", b"\xff\0"), (b"k", b"v" * (MAX_BYTES - 1))]
)
def test_key_and_value_stay_as_they_came(key: bytes | None, value: bytes | None) -> None:
    letter = dead_letter(Origin("sbic.labels", 0, 1), key, value, BAD)
    assert (letter.key, letter.value) == (key, value)
    assert "sbic.truncated" not in dict(letter.headers)


@pytest.mark.parametrize("missing", range(4))
def test_headers_without_a_value_or_with_endless_numbers_are_no_error(missing: int) -> None:
    headers: list[tuple[str, bytes | None]] = [*replayed_mark(Origin("sbic.labels", 0, 1))]
    headers[missing] = headers[missing][0], None
    read_headers(headers)
    headers[missing] = headers[missing][0], b"9" * 5000
    read_headers(headers)


@pytest.mark.parametrize(("key", "value"), [(10, 5 << 20), (5 << 20, 10), (5 << 20, 5 << 20)])
def test_what_grew_too_large_by_decompression_is_cut_and_marked(key: int, value: int) -> None:
    letter = dead_letter(Origin("sbic.labels", 0, 1), b"k" * key, b"v" * value, BAD)
    assert letter.key is not None
    assert letter.value is not None
    assert 0 < len(letter.key) + len(letter.value) <= MAX_BYTES
    assert dict(letter.headers)["sbic.truncated"] == b"true"
