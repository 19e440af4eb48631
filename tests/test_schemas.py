"""The schemas say what the code does: the same labels are good, and what is published is valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator

from pipeline.records.bad import ID_MAX_BYTES, BadRecord
from pipeline.records.labels import encode_label, parse_label
from pipeline.records.posteriors import encode_posterior, parse_posterior, posterior_of
from pipeline.records.workers import encode_worker

FOLDER = Path(__file__).parent.parent / "schemas"
FILES = sorted(FOLDER.glob("*.schema.json"))


def schema(kind: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / f"{kind}.schema.json").read_text())
    return read


def is_valid(kind: str, record: object) -> bool:
    return VALIDATORS[kind].is_valid(record)


KINDS = ("assignment", "label", "posterior", "request", "task", "worker")
VALIDATORS = {kind: Draft202012Validator(schema(kind)) for kind in KINDS}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ids = st.text(min_size=1, max_size=300) | st.sampled_from(
    ["t1", "", "x" * 64, "x" * 65, "x" * 256, "x" * 257, "é" * 128, "é" * 129, "🐦" * 64, "🐦" * 65]
)
labels: st.SearchStrategy[Any] = st.sampled_from(
    [1, -1, 0, None, 2, -2, True, False, 1.0, -1.0, 0.0, "1", [], {}, 10**30]
)
nearly_labels = st.fixed_dictionaries(
    {},
    optional={
        "task": ids | json_values,
        "worker": ids | json_values,
        "label": labels | json_values,
        "more": json_values,
    },
)
full_labels = st.fixed_dictionaries({"task": ids, "worker": ids, "label": labels})


def is_taken(value: bytes) -> bool:
    try:
        parse_label(value)
    except BadRecord:
        return False
    return True


def is_beyond_schema(record: dict[str, Any]) -> bool:
    """What the schema's description says that JSON Schema cannot: bytes, and 1.0."""
    return type(record["label"]) is float or any(
        len(record[name].encode()) > ID_MAX_BYTES for name in ("task", "worker")
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_schema_is_one_and_its_examples_are_valid(path: Path) -> None:
    content = json.loads(path.read_text())
    Draft202012Validator.check_schema(content)
    assert content["examples"]
    for example in content["examples"]:
        Draft202012Validator(content).validate(example)


def records_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Records of a flat schema; with Hypothesis 6.170 hypothesis-jsonschema makes no objects."""
    content = schema(kind)
    fields = {
        name: from_schema({**content["properties"][name], "$defs": content["$defs"]})
        for name in content["required"]
    }
    return st.builds(
        lambda more, record: {**more, **record},
        st.dictionaries(st.text(), json_values, max_size=2),
        st.fixed_dictionaries(fields),
    )


@given(records_of("label"))
def test_what_the_label_schema_takes_the_validator_takes(record: dict[str, Any]) -> None:
    assert is_taken(json.dumps(record).encode()) is not is_beyond_schema(record)


@given(nearly_labels | full_labels | json_values, st.booleans())
def test_the_validator_takes_exactly_what_the_label_schema_takes(
    record: Any, ascii_only: bool
) -> None:
    value = json.dumps(record, ensure_ascii=ascii_only).encode()
    good = is_valid("label", record) and not is_beyond_schema(record)
    assert is_taken(value) is good


@given(ids.filter(lambda name: 0 < len(name.encode()) <= 256), st.sampled_from([1, -1, 0, None]))
def test_the_labels_that_the_tools_write_are_valid(name: str, label: int | None) -> None:
    value = encode_label(name, name, label)
    assert is_valid("label", json.loads(value))
    assert parse_label(value) == (name, name, label)


finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)
sources = st.dictionaries(st.integers(0, 9999).map(str), st.integers(0, 2**62), max_size=8)


@given(st.text(min_size=1, max_size=64), finite, counts, sources, st.integers(-1, 2**53))
def test_published_posteriors_are_valid_and_come_back_to_the_last_bit(
    task: str, log_odds: float, number: int, counted: dict[str, int], updated_at: int
) -> None:
    posterior = posterior_of(task, log_odds, number, counted, updated_at)
    value = encode_posterior(posterior)
    VALIDATORS["posterior"].validate(json.loads(value))
    assert parse_posterior(value) == posterior


@given(
    st.text(min_size=1, max_size=64),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    st.tuples(counts, counts, counts),
    finite,
)
def test_published_workers_are_valid(
    worker: str,
    accuracies: tuple[float, float, float],
    numbers: tuple[int, int, int],
    correct: float,
) -> None:
    low, accuracy, high = accuracies
    labels, gold, gold_right = numbers
    value = encode_worker(
        {
            "worker": worker,
            "accuracy": accuracy,
            "interval": [low, high],
            "labels": labels,
            "correct": correct,
            "gold": gold,
            "gold_right": gold_right,
            "last_seen": 1700000000000,
        }
    )
    VALIDATORS["worker"].validate(json.loads(value))
