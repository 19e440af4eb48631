"""Records of the roster: each way to be bad has its reason, and the schema says the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason
from sbic.wire.workers import MAX_BYTES, NOTHING_SAID, RosterEntry, encode_roster, parse_roster
from tests.records.made import reason_of
from tests.test_schemas import ids, json_values, schema

SCHEMA = Draft202012Validator(schema("roster"))
nearly_entries = st.fixed_dictionaries(
    {},
    optional={
        "worker": ids | json_values,
        "blocked": st.sampled_from([True, False, None, 0, 1, "true"]) | json_values,
        "name": ids | st.none() | json_values,
        "group": ids | st.none() | json_values,
        "tier": st.sampled_from([None, True, 0, 1, 2.0, 2.5, 9, 10, "1"]) | json_values,
        "price": st.sampled_from([None, True, -1, 0, 0.0, 1e-7, 1e-6, 3, 1e6, 1e7, "1"])
        | st.floats(0, 10)
        | json_values,
        "more": json_values,
    },
)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, Reason.NULL_VALUE),
        (b"", None, Reason.NULL_VALUE),
        (b"\xff", None, Reason.BAD_ID),
        (b"x" * 257, None, Reason.BAD_ID),
        (b"ann", b"{", Reason.NOT_JSON),
        (b"ann", b"[]", Reason.NOT_OBJECT),
        (b"ann", b"{}", Reason.MISSING_FIELD),
        (b"ann", b'{"worker": 1}', Reason.BAD_ID),
        (b"ann", b'{"worker": "ann", "blocked": 1}', Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "blocked": "true"}', Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "name": ""}', Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "name": ["Ann"]}', Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "name": "%b"}' % (b"x" * 257), Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "group": ""}', Reason.BAD_FIELD),
        (b"ann", b'{"worker": "ann", "group": 1}', Reason.BAD_FIELD),
        *(
            (b"ann", b'{"worker": "ann", "tier": %b}' % tier, Reason.BAD_FIELD)
            for tier in (b"0", b"10", b"-1", b"1.5", b"true", b'"1"')
        ),
        *(
            (b"ann", b'{"worker": "ann", "price": %b}' % price, Reason.BAD_FIELD)
            for price in (b"-1", b"-0.01", b"1e-9", b"1000001", b"1e300", b"true", b'"1"')
        ),
        (b"ann", b'{"worker": "ann", "price": NaN}', Reason.NOT_JSON),
        (b"ann", b'{"worker": "ann", "price": 1e999}', Reason.NOT_JSON),
        (b"ann", b'{"worker": "ann"}' + b" " * MAX_BYTES, Reason.TOO_LARGE),
    ],
    ids=lambda part: repr(part)[:50],
)
def test_a_bad_record_has_its_reason(
    key: bytes | None, value: bytes | None, reason: Reason
) -> None:
    assert reason_of(parse_roster, key, value) is reason


@pytest.mark.parametrize("blocked", [True, False, None])
@pytest.mark.parametrize("name", ["Ann", "é" * 128, None])
@pytest.mark.parametrize("more", [(), ("family", 9, 0.000001), (None, 1, 0.0), ("f", None, 1e6)])
def test_what_is_written_is_read_and_fits_the_schema(
    blocked: bool | None, name: str | None, more: tuple[Any, ...]
) -> None:
    entry = RosterEntry(blocked, name, *more)
    value = encode_roster("ann", entry)
    assert parse_roster(b"another key", value) == ("ann", entry)
    SCHEMA.validate(json.loads(value))


def test_null_says_what_absence_says() -> None:
    null = dict.fromkeys(RosterEntry._fields)
    value = json.dumps({"worker": "ann", **null}).encode()
    assert parse_roster(None, value)[1] == NOTHING_SAID
    assert parse_roster(None, b'{"worker":"ann","colour":3}') == ("ann", NOTHING_SAID)


@given(nearly_entries)
def test_the_parser_takes_exactly_what_the_schema_takes(record: dict[str, Any]) -> None:
    too_long = any(
        type(record.get(name)) is str and len(record[name].encode()) > ID_MAX_BYTES
        for name in ("worker", "name", "group")
    )
    good = SCHEMA.is_valid(record) and not too_long
    try:
        parse_roster(None, json.dumps(record).encode())
    except BadRecord:
        assert not good
    else:
        assert good
