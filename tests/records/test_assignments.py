"""Assignments are published as valid records, and parse back unchanged."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sbic.wire.assignments import (
    AssignmentId,
    AssignmentRecord,
    Refusal,
    encode_end,
    encode_lease,
    encode_refusal,
    parse_assignment,
)
from sbic.wire.bad import BadRecord

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
