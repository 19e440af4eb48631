"""A posterior that this package did not write is refused, whatever is wrong with it."""

from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from orjson import dumps, loads

from sbic.classes import SIGNS, Classes
from sbic.wire.bad import Reason
from sbic.wire.posteriors import (
    CLOSE_REASONS,
    PosteriorColumns,
    encode_posteriors,
    posterior_parser,
)
from sbic.wire.rendering import CERTAIN
from tests.records.made import comes_back, named_posterior_of, posterior_of, reason_of
from tests.test_schemas import schema


@pytest.mark.parametrize(
    ("log_odds", "probability", "prediction"),
    [
        (0.0, 0.5, 0),
        (-0.0, 0.5, 0),
        (0.6931471805599453, 2 / 3, 1),
        (-0.6931471805599453, 1 / 3, -1),
        (800.0, 1.0, 1),
        (-800.0, 0.0, -1),
        (1e-300, 0.5, 1),
    ],
)
def test_probability_and_prediction_follow_from_the_log_odds(
    log_odds: float, probability: float, prediction: int
) -> None:
    posterior = posterior_of("t1", log_odds, 1, {}, 0)
    assert isclose(posterior["probability"], probability, rel_tol=1e-15)
    assert posterior["prediction"] == prediction


def test_a_task_with_a_long_name_comes_back() -> None:
    assert comes_back(SIGNS, posterior_of("x" * 256, 1.5, 2, {"0": 1, "12": 7}, 3))


parse_posterior = posterior_parser(SIGNS)
GOOD = (
    b'{"task":"t1","log_odds":1.5,"probability":0.8,"prediction":1,'
    b'"labels":1,"status":"open","sources":{"0":1},"updated_at":0}'
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"{", Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (GOOD.replace(b"log_odds", b"logit"), Reason.MISSING_FIELD),
        (GOOD.replace(b"t1", b""), Reason.BAD_ID),
        (GOOD.replace(b"1.5", b"null"), Reason.BAD_FIELD),
        (GOOD.replace(b'"labels":1', b'"labels":1.0'), Reason.BAD_FIELD),
        (GOOD.replace(b'{"0":1}', b"[1]"), Reason.BAD_FIELD),
        (GOOD.replace(b"probability", b"chance"), Reason.MISSING_FIELD),
        (GOOD.replace(b"0.8", b"1.5"), Reason.BAD_FIELD),
        (GOOD.replace(b'"prediction":1', b'"prediction":[]'), Reason.BAD_FIELD),
        (GOOD.replace(b'"prediction":1', b'"prediction":2'), Reason.BAD_FIELD),
        (GOOD.replace(b'"updated_at":0', b'"updated_at":%d' % (1 << 63)), Reason.BAD_FIELD),
    ],
)
def test_a_bad_posterior_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_posterior, value) is reason


def test_that_record_is_good_otherwise() -> None:
    assert parse_posterior(GOOD).sources == {"0": 1}


# Posteriors by class name parse back unchanged; impossible ones are refused.


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
    assert reason_of(parse_named, dumps(record)) is Reason.MISSING_FIELD


CATS_AND_DOGS = Classes(("cat", "dog"))
parse_named = posterior_parser(CATS_AND_DOGS)
NAMED: dict[str, Any] = {
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
    **NAMED,
    "gold": True,
    "confidence": 1.0,
    "probabilities": KNOWN,
    "evidence": {"cat": 0.25, "dog": 0.75},
}


@pytest.mark.parametrize("record", [NAMED, GOLD, {**NAMED, "prediction": None}])
def test_a_good_record_is_taken(record: dict[str, Any]) -> None:
    assert comes_back(CATS_AND_DOGS, record)


@pytest.mark.parametrize("missing", list(NAMED)[:8])
def test_a_field_that_is_missing_is_missed(missing: str) -> None:
    record = {name: value for name, value in NAMED.items() if name != missing}
    assert reason_of(parse_named, dumps(record)) is Reason.MISSING_FIELD


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
    assert reason_of(parse_named, dumps({**NAMED, **changes})) is Reason.BAD_FIELD


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"{", Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (b"{}", Reason.MISSING_FIELD),
        (dumps({**NAMED, "task": ""}), Reason.BAD_ID),
        (dumps({**NAMED, "gold": True}), Reason.MISSING_FIELD),
    ],
)
def test_a_bad_posterior_with_names_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_named, value) is reason


# Posteriors made by the column are those that the schema and the readers know.


POSTERIOR = Draft202012Validator(schema("posterior"))
THREE = Classes(("cat", "dog", 'a "bird"'))
PARTITIONS = 3
IDS = st.text(min_size=1, max_size=64) | st.sampled_from(["x" * 256, "\0", '"', "\\", "tâche"])
SOURCES = st.lists(st.just(0) | st.integers(1, 1 << 53), min_size=PARTITIONS, max_size=PARTITIONS)


@st.composite
def rows(draw: st.DrawFn, classes: Classes) -> dict[str, Any]:
    """What is known of one task."""
    size = len(classes)
    scores = draw(st.lists(st.floats(-30, 30), min_size=size, max_size=size))
    gold = draw(st.sampled_from([-1, -1, *range(size)]))
    beliefs = softmax(scores) if gold < 0 else np.eye(size)[gold].tolist()
    weights = draw(st.none() | st.lists(st.floats(0.01, 1), min_size=size, max_size=size))
    return {
        "task": draw(IDS),
        "beliefs": beliefs,
        "evidence": scores,
        "labels": draw(st.integers(0, 1 << 40)),
        "updated_at": draw(st.integers(0, 1 << 50)),
        "sources": draw(SOURCES),
        "described": draw(st.integers(-1, 1 << 50)),
        "reason": draw(st.sampled_from([None, *CLOSE_REASONS])),
        "reopened": draw(st.booleans()),
        "gold": gold,
        "prior": None if weights is None else [weight / sum(weights) for weight in weights],
    }


def softmax(scores: list[float]) -> list[float]:
    odds = np.exp(np.array(scores) - max(scores))
    found: list[float] = (odds / odds.sum()).tolist()
    return found


def columns_of(some: list[dict[str, Any]], classes: Classes) -> PosteriorColumns:
    def column(name: str, kind: Any) -> Any:
        return np.array([row[name] for row in some], kind)

    size = len(some)
    return PosteriorColumns(
        [row["task"] for row in some],
        column("beliefs", np.float64).reshape(size, len(classes)),
        column("evidence", np.float64).reshape(size, len(classes)),
        column("labels", np.int64),
        column("updated_at", np.int64),
        column("sources", np.int64).reshape(size, PARTITIONS),
        column("described", np.int64),
        [row["reason"] for row in some],
        column("reopened", np.bool_),
        column("gold", np.int64),
        [row["prior"] for row in some],
        column("votes", np.float64) if some and "votes" in some[0] else None,
    )


def sources_of(row: dict[str, Any]) -> dict[str, int]:
    after = enumerate(row["sources"])
    found = {str(partition): offset - 1 for partition, offset in after if offset}
    return found | ({"tasks": row["described"]} if row["described"] >= 0 else {})


def with_more(record: dict[str, Any], row: dict[str, Any], prior: Any) -> dict[str, Any]:
    """With the fields that are there when they apply."""
    if row["reason"] is not None:
        record |= {"status": "closed", "reason": row["reason"]}
    if row["reopened"]:
        record["reopened"] = True
    if row["prior"] is not None:
        record["prior"] = prior
    return record


@given(st.lists(rows(SIGNS), min_size=1, max_size=5))
def test_posteriors_of_signs_are_what_they_should_be(some: list[dict[str, Any]]) -> None:
    for row, value in zip(some, encode_posteriors(SIGNS, columns_of(some, SIGNS)), strict=True):
        found = loads(value)
        POSTERIOR.validate(found)
        evidence = row["evidence"][1] - row["evidence"][0]
        log_odds = evidence if row["gold"] < 0 else CERTAIN if row["gold"] else -CERTAIN
        counts = row["labels"], sources_of(row), row["updated_at"]
        record: Any = posterior_of(row["task"], log_odds, *counts)
        if row["gold"] >= 0:
            record |= {"gold": True, "evidence": evidence}
        expected = with_more(record, row, row["prior"] and row["prior"][1])
        assert found == {**expected, "probability": pytest.approx(expected["probability"])}
        assert found["probability"] == row["beliefs"][1]
        assert comes_back(SIGNS, found)


@given(st.lists(rows(THREE), min_size=1, max_size=5))
def test_posteriors_by_name_are_what_they_should_be(some: list[dict[str, Any]]) -> None:
    for row, value in zip(some, encode_posteriors(THREE, columns_of(some, THREE)), strict=True):
        found = loads(value)
        POSTERIOR.validate(found)
        gold = None if row["gold"] < 0 else row["gold"]
        counts = row["labels"], sources_of(row), row["updated_at"]
        shares = softmax(row["evidence"])
        record: Any = named_posterior_of(THREE, row["task"], shares, *counts, gold)
        prior = row["prior"] and dict(zip(THREE.names, row["prior"], strict=True))
        assert found == with_more(record, row, prior)
        assert comes_back(THREE, found)


def test_no_tasks_make_no_records() -> None:
    for classes in (SIGNS, THREE):
        assert encode_posteriors(classes, columns_of([], classes)) == []


PLAIN: dict[str, Any] = {
    "task": "t1",
    "labels": 2,
    "updated_at": 7,
    "sources": [0, 43, 0],
    "described": -1,
    "reason": None,
    "reopened": False,
    "gold": -1,
    "prior": None,
}


@pytest.mark.parametrize(
    ("scores", "labels", "prediction"),
    [
        ([0.0, 1.0, 0.0], 2, "dog"),
        ([1.0, 1.0, 0.0], 2, None),
        ([0.0, 0.0, 0.0], 2, None),
        ([0.0, 1.0, 0.0], 0, None),
    ],
)
def test_by_name_nothing_is_predicted_before_any_label_nor_in_a_tie(
    scores: list[float], labels: int, prediction: str | None
) -> None:
    row = {**PLAIN, "labels": labels, "evidence": scores, "beliefs": softmax(scores)}
    [value] = encode_posteriors(THREE, columns_of([row], THREE))
    assert loads(value)["prediction"] == prediction
    assert comes_back(THREE, loads(value))


@pytest.mark.parametrize(("log_odds", "prediction"), [(0.5, 1), (-0.5, -1), (0.0, 0), (-0.0, 0)])
def test_of_signs_nothing_is_predicted_while_the_log_odds_are_0(
    log_odds: float, prediction: int
) -> None:
    row = {**PLAIN, "evidence": [0.0, log_odds], "beliefs": softmax([0.0, log_odds])}
    [value] = encode_posteriors(SIGNS, columns_of([row], SIGNS))
    assert loads(value)["prediction"] == prediction
    assert comes_back(SIGNS, loads(value))


BYTES: dict[Classes, list[bytes]] = {
    SIGNS: [
        b'{"task":"t1","log_odds":0.5,"probability":0.6,"prediction":1,"effective_votes":1.235,'
        b'"labels":2,"status":"open","sources":{"1":42},"updated_at":7}',
        b'{"task":"a \\"b\\"","log_odds":-1000.0,"probability":0.0,"prediction":-1,'
        b'"effective_votes":2.0,"labels":3,"status":"closed","sources":{"1":42,"tasks":9},'
        b'"updated_at":7,"reason":"labels","gold":true,"evidence":1.0,"prior":0.3,"reopened":true}',
    ],
    Classes(("cat", "dog")): [
        b'{"task":"t1","prediction":"dog","confidence":0.6,"probabilities":{"cat":0.4,"dog":0.6},'
        b'"effective_votes":1.235,"labels":2,"status":"open","sources":{"1":42},"updated_at":7}',
        b'{"task":"a \\"b\\"","prediction":"cat","confidence":1.0,'
        b'"probabilities":{"cat":1.0,"dog":0.0},"effective_votes":2.0,"labels":3,'
        b'"status":"closed","sources":{"1":42,"tasks":9},"updated_at":7,"reason":"labels",'
        b'"gold":true,"evidence":{"cat":0.2689414213699951,"dog":0.7310585786300049},'
        b'"prior":{"cat":0.7,"dog":0.3},"reopened":true}',
    ],
}


@pytest.mark.parametrize("classes", BYTES)
def test_both_forms_of_the_same_numbers_to_the_byte(classes: Classes) -> None:
    known = {"evidence": [-1.5, -0.5], "beliefs": [1.0, 0.0], "gold": 0, "described": 9}
    more = {"reason": "labels", "reopened": True, "prior": [0.7, 0.3], "labels": 3, "votes": 2.0}
    some = [
        {**PLAIN, "evidence": [0.0, 0.5], "beliefs": [0.4, 0.6], "votes": 1.23456},
        {**PLAIN, **known, **more, "task": 'a "b"'},
    ]
    assert encode_posteriors(classes, columns_of(some, classes)) == BYTES[classes]
    assert all(comes_back(classes, loads(value)) for value in BYTES[classes])
