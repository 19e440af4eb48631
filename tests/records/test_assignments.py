"""Assignments are published as valid records, and parse back unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sbic.wire.assignments import (
    MAX_BYTES,
    AssignmentId,
    AssignmentRecord,
    Refusal,
    encode_end,
    encode_lease,
    encode_refusal,
    encode_request,
    parse_assignment,
    parse_request,
)
from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason
from tests.records.made import reason_of

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
SCHEMA = Draft202012Validator(json.loads((SCHEMAS / "assignment.schema.json").read_text()))
ids = st.text(min_size=1, max_size=64)
times = st.integers(0, 2**53)
names = st.builds(
    AssignmentId,
    st.integers(0, 9999),
    st.integers(0, 2**62),
    st.integers(0, 99),
    st.sampled_from(["", "label"]),
)


def parsed(value: bytes) -> AssignmentRecord:
    SCHEMA.validate(json.loads(value))
    return parse_assignment(value)


@given(ids, ids, names, st.sampled_from(["uncertainty", "uniform", "gold"]), times, times)
def test_a_lease_is_valid(
    worker: str, task: str, name: AssignmentId, policy: str, issued_at: int, expires_at: int
) -> None:
    value = encode_lease(worker, task, name, policy, issued_at, expires_at)
    assert parsed(value) == AssignmentRecord(worker, task, name, expires_at, ended=False)


@given(ids, st.sampled_from(Refusal), names, times)
def test_a_refusal_is_valid(
    worker: str, reason: Refusal, name: AssignmentId, issued_at: int
) -> None:
    value = encode_refusal(worker, reason, name, issued_at)
    assert parsed(value) == AssignmentRecord(worker, None, name, 0, ended=False)


@given(ids, ids, names)
def test_the_end_of_a_lease_is_valid(worker: str, task: str, name: AssignmentId) -> None:
    assert parsed(encode_end(worker, task, name, "answered")).ended
    assert parsed(encode_end(worker, task, name, "skipped")).task == task


@given(names)
def test_an_id_says_which_request_it_answers(name: AssignmentId) -> None:
    assert AssignmentId.parse(str(name)) == name


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"{}",
        b'{"worker": "w1", "task": "t1", "id": "0-0-0"}',
        b'{"worker": "w1", "task": "t1", "id": "0-0-0", "expires_at": "soon"}',
        b'{"worker": "w1", "task": 1, "id": "0-0-0", "expires_at": 1}',
        b'{"worker": 1, "task": "t1", "id": "0-0-0", "expires_at": 1}',
        b'{"worker": "w1", "task": "t1", "id": 0, "expires_at": 1}',
        b'{"worker": "w1", "task": "t1", "id": "7", "expires_at": 1}',
    ],
)
def test_a_record_that_is_not_ours_is_refused(value: bytes | None) -> None:
    with pytest.raises(BadRecord):
        parse_assignment(value)


# Each way in which a request can be bad has its reason, and the schema says the same.


REQUEST = Draft202012Validator(json.loads((SCHEMAS / "request.schema.json").read_text()))
request_ids = (
    st.sampled_from(["w1", "", "x" * 64, "x" * 65, "x" * 257, "é" * 128, "é" * 129]) | st.text()
)
counts: st.SearchStrategy[Any] = st.integers(-1, 102) | st.sampled_from(
    [True, None, 1.0, 1.5, "1", [], {}, 10**30]
)
nearly_requests = st.fixed_dictionaries(
    {}, optional={"worker": request_ids | counts, "count": counts, "more": counts}
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"", Reason.NOT_JSON),
        (b"w1", Reason.NOT_JSON),
        (b"[]", Reason.NOT_OBJECT),
        (b'"worker"', Reason.NOT_OBJECT),
        (b"{}", Reason.MISSING_FIELD),
        (b'{"count": 1}', Reason.MISSING_FIELD),
        (b'{"worker": ""}', Reason.BAD_ID),
        (b'{"worker": 1}', Reason.BAD_ID),
        (b'{"worker": "%b"}' % (b"x" * 257), Reason.BAD_ID),
        (b'{"worker": "w1", "count": 0}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": 101}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": -1}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": true}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": 1.0}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": "1"}', Reason.BAD_COUNT),
        (b'{"worker": "w1", "count": null}', Reason.BAD_COUNT),
        (b'{"worker": "w1"}' + b" " * MAX_BYTES, Reason.TOO_LARGE),
    ],
    ids=lambda part: repr(part)[:50],
)
def test_a_bad_request_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_request, value) is reason


@pytest.mark.parametrize("worker", ["w", "x" * 65, "x" * 256, "é" * 128])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_good_request_is_taken_as_it_is(worker: str, count: int) -> None:
    assert parse_request(encode_request(worker, count)) == (worker, count)
    REQUEST.validate(json.loads(encode_request(worker, count)))


@given(nearly_requests)
def test_the_validator_takes_exactly_what_the_schema_takes(record: dict[str, Any]) -> None:
    beyond_schema = (
        type(record.get("count")) is float
        or len(str(record.get("worker", "")).encode()) > ID_MAX_BYTES
    )
    good = REQUEST.is_valid(record) and not beyond_schema
    try:
        parse_request(json.dumps(record).encode())
    except BadRecord:
        assert not good
    else:
        assert good
