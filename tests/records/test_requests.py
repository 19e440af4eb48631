"""Each way in which a request can be bad has its reason, and the schema says the same."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sbic.wire.assignments import MAX_BYTES, encode_request, parse_request
from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason
from tests.records.reasons import reason_of

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
SCHEMA = Draft202012Validator(json.loads((SCHEMAS / "request.schema.json").read_text()))

ids = st.sampled_from(["w1", "", "x" * 64, "x" * 65, "x" * 257, "é" * 128, "é" * 129]) | st.text()
counts: st.SearchStrategy[Any] = st.integers(-1, 102) | st.sampled_from(
    [True, None, 1.0, 1.5, "1", [], {}, 10**30]
)
nearly_requests = st.fixed_dictionaries(
    {}, optional={"worker": ids | counts, "count": counts, "more": counts}
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
    SCHEMA.validate(json.loads(encode_request(worker, count)))


@given(nearly_requests)
def test_the_validator_takes_exactly_what_the_schema_takes(record: dict[str, Any]) -> None:
    beyond_schema = (
        type(record.get("count")) is float
        or len(str(record.get("worker", "")).encode()) > ID_MAX_BYTES
    )
    good = SCHEMA.is_valid(record) and not beyond_schema
    try:
        parse_request(json.dumps(record).encode())
    except BadRecord:
        assert not good
    else:
        assert good
