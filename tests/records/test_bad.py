"""Whatever bytes a stranger writes on a topic, all that can come of them is a `BadRecord`."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records.assignments import parse_assignment
from pipeline.records.bad import BadRecord
from pipeline.records.labels import parse_label
from pipeline.records.posteriors import parse_posterior
from pipeline.records.requests import parse_request
from pipeline.records.tasks import parse_task
from pipeline.records.votes import parse_votes

PARSERS = [parse_assignment, parse_label, parse_posterior, parse_request, parse_votes]

FIELDS = (
    b"task worker label log_odds labels sources updated_at status reason gold evidence prior "
    b"count id expires_at source votes"
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


@given(key=some_bytes, value=some_bytes | json_values)
def test_no_key_of_a_task_raises_anything_else(key: bytes | None, value: bytes | None) -> None:
    with suppress(BadRecord):
        parse_task(key, value)
