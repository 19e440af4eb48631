"""Arbitrary bytes on a topic raise `BadRecord` and nothing else."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.classes import SIGNS, Classes
from pipeline.records.answers import parse_answers
from pipeline.records.assignments import parse_assignment
from pipeline.records.bad import BadRecord
from pipeline.records.estimates import parse_estimates
from pipeline.records.labels import label_parser
from pipeline.records.many_votes import parse_votes
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.records.posteriors import parse_posterior
from pipeline.records.requests import parse_request
from pipeline.records.tasks import task_parser

PETS = Classes(("t1", "task"))
PARSERS = [
    parse_assignment,
    label_parser(SIGNS),
    label_parser(PETS),
    parse_posterior,
    parse_any_posterior,
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
