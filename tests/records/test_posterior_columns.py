"""Posteriors made by the column are those that the schema and the readers know."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from orjson import loads

from sbic.classes import SIGNS, Classes
from sbic.wire.posteriors import CLOSE_REASONS, PosteriorColumns, encode_posteriors
from sbic.wire.rendering import CERTAIN
from tests.records.made import comes_back, named_posterior_of, posterior_of
from tests.test_schemas import schema

POSTERIOR = Draft202012Validator(schema("posterior"))
PETS = Classes(("cat", "dog", 'a "bird"'))
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


@given(st.lists(rows(PETS), min_size=1, max_size=5))
def test_posteriors_by_name_are_what_they_should_be(some: list[dict[str, Any]]) -> None:
    for row, value in zip(some, encode_posteriors(PETS, columns_of(some, PETS)), strict=True):
        found = loads(value)
        POSTERIOR.validate(found)
        gold = None if row["gold"] < 0 else row["gold"]
        counts = row["labels"], sources_of(row), row["updated_at"]
        shares = softmax(row["evidence"])
        record: Any = named_posterior_of(PETS, row["task"], shares, *counts, gold)
        prior = row["prior"] and dict(zip(PETS.names, row["prior"], strict=True))
        assert found == with_more(record, row, prior)
        assert comes_back(PETS, found)


def test_no_tasks_make_no_records() -> None:
    for classes in (SIGNS, PETS):
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
    [value] = encode_posteriors(PETS, columns_of([row], PETS))
    assert loads(value)["prediction"] == prediction
    assert comes_back(PETS, loads(value))


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
