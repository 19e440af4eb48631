"""Posteriors by class name parse back unchanged; impossible ones are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import dumps

from sbic.classes import Classes
from sbic.wire.bad import Reason
from sbic.wire.posteriors import posterior_parser
from tests.records.made import comes_back, named_posterior_of, posterior_of
from tests.records.reasons import reason_of

PETS = Classes(("cat", "dog", "bird"))


@pytest.mark.parametrize(
    ("probabilities", "labels", "gold", "prediction", "confidence"),
    [
        ([0.2, 0.7, 0.1], 1, None, "dog", 0.7),
        ([0.2, 0.7, 0.1], 0, None, None, 0.7),  # before any label
        ([0.4, 0.2, 0.4], 2, None, None, 0.4),  # a tie
        ([0.4, 0.2, 0.4], 2, 1, "dog", 1.0),
        ([0.2, 0.7, 0.1], 0, 2, "bird", 1.0),
        ([0.0, 1.0, 0.0], 9, None, "dog", 1.0),
    ],
)
def test_prediction_and_confidence_follow_from_the_probabilities(
    probabilities: list[float],
    labels: int,
    gold: int | None,
    prediction: str | None,
    confidence: float,
) -> None:
    record = named_posterior_of(PETS, "t1", probabilities, labels, {}, 0, gold)
    assert (record["prediction"], record["confidence"]) == (prediction, confidence)
    assert max(record["probabilities"].values()) == confidence
    told = record["probabilities"] if gold is None else record["evidence"]
    assert list(told.values()) == probabilities
    assert ("gold" in record, "evidence" in record) == (gold is not None, gold is not None)


def test_there_is_a_probability_for_each_class() -> None:
    with pytest.raises(ValueError, match="shorter"):
        named_posterior_of(PETS, "t1", [0.5, 0.5], 1, {}, 0)


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda shares: sum(shares) > 1e-3),
    st.integers(0, 2**53),
    st.none() | st.integers(0, 2),
    st.text(min_size=1, max_size=64),
)
def test_what_is_published_comes_back_to_the_last_bit(
    shares: list[float], labels: int, gold: int | None, task: str
) -> None:
    probabilities = [share / sum(shares) for share in shares]
    record = named_posterior_of(PETS, task, probabilities, labels, {"3": 42}, 7, gold)
    assert comes_back(PETS, record)


def test_posteriors_of_signs_are_not_those_of_names() -> None:
    record = posterior_of("t1", 1.5, 2, {"0": 1, "12": 7}, 3)
    assert reason_of(parse_posterior, dumps(record)) is Reason.MISSING_FIELD


CATS_AND_DOGS = Classes(("cat", "dog"))
parse_posterior = posterior_parser(CATS_AND_DOGS)
GOOD: dict[str, Any] = {
    "task": "t1",
    "prediction": "dog",
    "confidence": 0.75,
    "probabilities": {"cat": 0.25, "dog": 0.75},
    "labels": 1,
    "status": "closed",
    "sources": {"0": 1, "tasks": 3},
    "updated_at": 0,
    "reason": "labels",
    "prior": {"cat": 0.5, "dog": 0.5},
    "reopened": True,
}
KNOWN = {"cat": 0.0, "dog": 1.0}
GOLD = {
    **GOOD,
    "gold": True,
    "confidence": 1.0,
    "probabilities": KNOWN,
    "evidence": {"cat": 0.25, "dog": 0.75},
}


@pytest.mark.parametrize("record", [GOOD, GOLD, {**GOOD, "prediction": None}])
def test_a_good_record_is_taken(record: dict[str, Any]) -> None:
    assert comes_back(CATS_AND_DOGS, record)


@pytest.mark.parametrize("missing", list(GOOD)[:8])
def test_a_field_that_is_missing_is_missed(missing: str) -> None:
    record = {name: value for name, value in GOOD.items() if name != missing}
    assert reason_of(parse_posterior, dumps(record)) is Reason.MISSING_FIELD


@pytest.mark.parametrize(
    "changes",
    [
        {"probabilities": None},
        {"probabilities": 0.75},
        {"probabilities": {}},
        {"probabilities": {"dog": 1.0}, "confidence": 1.0, "prior": {"dog": 1.0}},
        {"probabilities": {"cat": 0.25, "dog": 0.5}, "confidence": 0.5},
        {"probabilities": {"cat": -0.25, "dog": 1.25}, "confidence": 1.25},
        {"probabilities": {"cat": 0, "dog": 1}, "confidence": 1.0},
        {"probabilities": {"cat": 0.25, "dog": "0.75"}},
        {"probabilities": {"cat": 0.25, "dog": None}},
        {"confidence": 0.25},
        {"confidence": 1},
        {"confidence": "0.75"},
        {"prediction": "fish"},
        {"prediction": "cat"},
        {"prediction": 1},
        {"prediction": ["dog"]},
        {"labels": 1.0},
        {"labels": -1},
        {"labels": 2**60},
        {"sources": [1]},
        {"sources": {"0": "1"}},
        {"updated_at": 0.5},
        {"status": "done"},
        {"reason": "tired"},
        {"gold": False},
        {"gold": True, "prediction": None, "evidence": {"cat": 0.5, "dog": 0.5}},
        {"evidence": 0.5},
        {"evidence": {"cat": 0.5, "bird": 0.5}},
        {"prior": 0.5},
        {"prior": {"cat": 0.0, "dog": 1.0}},
        {"prior": {"cat": 0.5, "dog": 0.25, "bird": 0.25}},
        {"reopened": False},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    assert reason_of(parse_posterior, dumps({**GOOD, **changes})) is Reason.BAD_FIELD


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"{", Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (b"{}", Reason.MISSING_FIELD),
        (dumps({**GOOD, "task": ""}), Reason.BAD_ID),
        (dumps({**GOOD, "gold": True}), Reason.MISSING_FIELD),
    ],
)
def test_a_bad_posterior_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_posterior, value) is reason
