"""Records between instances parse back unchanged; impossible ones are refused."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.outside import Moments
from sbic.engine.state import ELSEWHERE, Sums
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.changelogs import (
    Answers,
    Fact,
    Facts,
    Piece,
    VotesFor,
    encode_answers,
    encode_facts,
    parse_answers,
    read_facts,
)
from sbic.wire.columns import FORMAT, Columns, Names, read_names
from sbic.wire.estimates import (
    CANDIDATE_COLUMNS,
    CANDIDATE_ROWS,
    Beliefs,
    Counts,
    Estimates,
    Findings,
    Numbered,
    Said,
    Skips,
    Spent,
    Whole,
    encode_estimates,
    parse_estimates,
)
from sbic.wire.posteriors import CLOSE_REASONS
from sbic.wire.votes import NOBODY, REPEAT, Votes, encode_votes, parse_votes
from tests.records.made import reason_of

CLASSES = 2
IDS = st.text(min_size=1, max_size=64) | st.sampled_from(["x" * 256, "é" * 128, "\0", '"\n'])
FLOATS = st.floats(-1000, 1000)
COUNTS = st.floats(0, 1e9)
INT64 = st.integers(0, (1 << 62) - 1)


def matrix(rows: list[list[float]], width: int) -> np.ndarray:
    return np.array(rows, np.float64).reshape(len(rows), width)


@st.composite
def some_votes(draw: st.DrawFn) -> Votes:
    tasks = draw(st.lists(IDS, max_size=4))
    size = len(tasks)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    width = draw(st.sampled_from([0, CLASSES**2]))
    offsets = draw(st.lists(INT64, min_size=size, max_size=size, unique=True))
    return Votes(
        draw(st.integers(0, 7)),
        Names.of(tasks),
        Names.of(column(IDS)),
        np.array(column(st.integers(REPEAT, CLASSES - 1)), "<i2"),
        np.array(sorted(offsets), np.int64),
        np.array(column(st.integers(-1, 1 << 50)), np.int64),
        np.array(column(FLOATS), np.float64),
        matrix(column(st.lists(COUNTS, min_size=width, max_size=width)), width),
    )


def are_same(one: Any, other: Any) -> bool:
    """Whether two records have the same fields and columns."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(are_same, one, other))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


VOTES = some_votes()
ANSWERS = st.builds(
    Answers,
    st.lists(st.builds(Piece, INT64, INT64), min_size=1, max_size=3),
    st.lists(st.builds(VotesFor, st.integers(NOBODY, 7), VOTES.map(encode_votes)), max_size=3),
    st.lists(INT64, max_size=2),
    drifting=st.none() | st.dictionaries(IDS, INT64, min_size=1, max_size=2),
)
PRIORS = st.floats(0.001, 0.999).map(lambda q: [1 - q, q])
FACTS = st.builds(
    Facts,
    INT64,
    st.lists(
        st.builds(
            Fact,
            IDS,
            st.none() | PRIORS,
            st.none() | st.integers(0, CLASSES - 1),
            st.none() | st.sampled_from(CLOSE_REASONS),
            st.booleans(),
            st.integers(-1, 1 << 61),
            st.integers(0, 1 << 50),
            kept_at=INT64,
            decided=INT64,
        ),
        max_size=3,
    ),
    st.lists(IDS, max_size=3).map(Names.of),
)
NUMBERED = st.builds(
    Numbered,
    st.integers(0, 5),
    st.lists(IDS, max_size=3),
    st.lists(st.integers(0, 8), max_size=3).map(lambda numbers: np.array(numbers, np.int32)),
)


@st.composite
def beliefs(draw: st.DrawFn) -> Beliefs:
    tasks = draw(NUMBERED)
    rows = len(tasks.numbers)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    return Beliefs(
        tasks,
        np.array(column(st.integers(0, 1 << 30)), np.int32),
        np.array(column(st.integers(-1, CLASSES - 1)), np.int16),
        np.array(column(st.booleans()), np.bool_),
        np.array(column(FLOATS), np.float64),
        matrix(column(st.lists(FLOATS, min_size=CLASSES, max_size=CLASSES)), CLASSES),
        tiers := np.array(column(st.integers(0, 9)), np.int8),
        np.array(column(st.integers(0, 1 << 30)), np.int32) * tiers.any(),
    )


@st.composite
def said(draw: st.DrawFn) -> Said:
    names = draw(st.lists(IDS, max_size=4))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=len(names), max_size=len(names)))

    return Said(
        names,
        np.array(column(st.integers(0, 9)), np.int8),
        np.array(column(st.booleans()), np.bool_),
        np.array(column(INT64), np.int64),
        ["", "family"],
        np.array(column(st.integers(0, 1)), np.int32),
        np.array(column(st.booleans()), np.bool_),
        draw(st.booleans()),
    )


PLACES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=5)
SKIPS = PLACES.map(
    lambda pairs: Skips(["w", "v"], ["a", "b", "c"], np.array(pairs, np.int32).reshape(-1, 2))
)


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    workers = draw(NUMBERED)
    row = st.lists(COUNTS, min_size=CLASSES**2, max_size=CLASSES**2)
    rows = draw(st.lists(row, min_size=len(workers.numbers), max_size=len(workers.numbers)))
    return Counts(workers, matrix(rows, CLASSES**2))


SUMS = st.builds(
    Sums,
    st.lists(COUNTS, min_size=ELSEWHERE, max_size=ELSEWHERE).map(np.array),
    st.lists(COUNTS, min_size=CLASSES, max_size=CLASSES).map(np.array),
)


@st.composite
def findings(draw: st.DrawFn) -> Findings:
    columns = st.lists(FLOATS, min_size=CLASSES, max_size=CLASSES)
    every = draw(st.lists(columns, min_size=2, max_size=2))
    known = draw(st.lists(columns, min_size=4, max_size=4))
    candidates = np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS))
    for row in draw(st.lists(st.integers(0, CANDIDATE_ROWS - 1), max_size=3)):
        candidates[row] = draw(
            st.lists(COUNTS, min_size=CANDIDATE_COLUMNS, max_size=CANDIDATE_COLUMNS)
        )
    shares = Moments(draw(COUNTS), matrix(every, CLASSES), draw(COUNTS), matrix(known, CLASSES))
    counted = st.integers(0, 1 << 40)
    return Findings(draw(COUNTS), draw(counted), draw(counted), draw(COUNTS), shares, candidates)


ESTIMATES: st.SearchStrategy[Estimates] = (
    beliefs()
    | counts()
    | SUMS
    | SUMS.map(Whole)
    | findings()
    | said()
    | SKIPS
    | st.builds(Spent, INT64)
)


@given(VOTES)
def test_votes_come_back(votes: Votes) -> None:
    assert are_same(parse_votes(encode_votes(votes), CLASSES), votes)


@given(ANSWERS)
def test_answers_come_back(answers: Answers) -> None:
    assert parse_answers(encode_answers(answers)) == answers
    assert answers.upto == answers.pieces[-1].upto


@given(FACTS)
def test_facts_come_back(facts: Facts) -> None:
    assert read_facts(Columns(encode_facts(facts))) == facts


@given(INT64, ESTIMATES)
def test_estimates_come_back(epoch: int, told: Estimates) -> None:
    found_epoch, found = parse_estimates(encode_estimates(epoch, told), CLASSES)
    assert found_epoch == epoch
    assert type(found) is type(told)
    if isinstance(found, Whole) and isinstance(told, Whole):
        found, told = found.sums, told.sums
    assert are_same(found, told)


def parse_facts(value: bytes | None) -> Facts:
    return read_facts(Columns(value))


Parse = Callable[[bytes | None], object]
KINDS: dict[str, tuple[Parse, st.SearchStrategy[bytes]]] = {
    "votes": (partial(parse_votes, classes=CLASSES), VOTES.map(encode_votes)),
    "answers": (parse_answers, ANSWERS.map(encode_answers)),
    "facts": (parse_facts, FACTS.map(encode_facts)),
    "estimates": (
        partial(parse_estimates, classes=CLASSES),
        st.builds(encode_estimates, INT64, ESTIMATES),
    ),
}
json_values = st.recursive(
    st.sampled_from([None, True, 0, 1, -1, -7, 1.5, 1e300, "", "t1", "x" * 300])
    | st.integers(-(1 << 64), 1 << 64),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


@st.composite
def garbled(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    """A record with some bytes changed, cut or added, or a field of its first line changed."""
    value = draw(values)
    if draw(st.booleans()):
        line, _, rest = value.partition(b"\n")
        fields = json.loads(line)
        name = draw(st.sampled_from([*fields, "more"]))
        fields[name] = draw(json_values | st.just(inserted(fields.get(name), draw(json_values))))
        value = json.dumps(fields).encode() + b"\n" + rest
    for place in draw(st.lists(st.integers(0, len(value)), max_size=3)):
        more = draw(st.binary(max_size=8))
        value = value[:place] + more + value[place + draw(st.integers(0, 8)) :]
    return value


def inserted(field: object, value: object) -> object:
    """A list with something else in it, if it is one."""
    return [*field[:-1], value] if isinstance(field, list) else value


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_garbled_record_is_bad_or_as_good_as_another(kind: str, data: st.DataObject) -> None:
    parse, values = KINDS[kind]
    value = data.draw(garbled(values))
    for read in (parse, *(other for other, _ in KINDS.values())):
        with suppress(BadRecord):
            read(value)


BEFORE = [b'{"taken":[[1,2]],"votes":{}}', b'{"source":0,"votes":[]}']


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"null", b'"x"', b"\n\n", *BEFORE])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_record_of_this_format_is_refused(kind: str, value: bytes | None) -> None:
    assert reason_of(KINDS[kind][0], value) is Reason.NOT_OURS


@pytest.mark.parametrize("found", [FORMAT - 1, FORMAT + 1, None, str(FORMAT)])
def test_another_format_is_refused(found: object) -> None:
    value = encode_facts(Facts(1, []))
    assert Columns(value).kind == "facts"
    other = value.replace(b'"format":%d' % FORMAT, b'"format":' + json.dumps(found).encode())
    assert reason_of(Columns, other) is Reason.NOT_OURS


# Names as bytes: what is read is what was written.


LISTS = st.lists(st.text(min_size=1, max_size=6))


@given(st.lists(LISTS))
def test_names_of_many_records_come_back(records: list[list[str]]) -> None:
    packed = [Names.of(names) for names in records]
    lengths = np.concatenate([np.zeros(0, np.int64), *(names.lengths for names in packed)])
    text = b"".join(names.text.tobytes() for names in packed)
    found = read_names(text, lengths.astype("<u2"))
    assert list(found) == [name for names in records for name in names]
    assert list(Names.joined(packed)) == list(found)


@given(LISTS, st.data())
def test_some_of_them(names: list[str], data: st.DataObject) -> None:
    packed = Names.of(names)
    first = data.draw(st.integers(0, len(names)))
    end = data.draw(st.integers(first, len(names)))
    assert list(packed.part(first, end)) == names[first:end]
    places = data.draw(st.lists(st.integers(0, len(names) - 1))) if names else []
    assert list(packed.take(np.array(places, np.int64))) == [names[place] for place in places]
    assert [packed[place] for place in range(len(names))] == names
