"""What users say of tasks: the validator takes what the schema takes, and says what is wrong."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pipeline.records.bad import ID_MAX_BYTES, BadRecord, Reason
from pipeline.records.posteriors import encode_posterior
from pipeline.records.tasks import MAX_BYTES, Description, encode_task, parse_task
from pipeline.stages.stop_rules import StopRules
from tests.records.reasons import reason_of
from tests.stages.test_tasks import EVENTS, RULES, feed, new_stage
from tests.test_schemas import ids, json_values, schema

TASK = Draft202012Validator(schema("task"))
POSTERIOR = Draft202012Validator(schema("posterior"))

priors = st.sampled_from([0.5, 0, 1, 0.0, 1.0, -0.5, 1.5, 5e-324, True, "0.5", None]) | st.floats(
    0, 1
)
golds: st.SearchStrategy[Any] = st.sampled_from([1, -1, 0, 2, None, True, 1.0, -1.0, "1", [1]])
statuses = st.sampled_from(["open", "closed", None, "Open", "", True, 1, ["open"]])
nearly_tasks = st.fixed_dictionaries(
    {},
    optional={
        "task": ids | json_values,
        "prior": priors | json_values,
        "gold": golds | json_values,
        "status": statuses | json_values,
        "more": json_values,
    },
)
full_tasks = st.fixed_dictionaries(
    {"task": ids}, optional={"prior": priors, "gold": golds, "status": statuses}
)


def is_taken(value: bytes) -> bool:
    try:
        parse_task(None, value)
    except BadRecord:
        return False
    return True


def is_beyond_schema(record: dict[str, Any]) -> bool:
    """What the schema's description says that JSON Schema cannot: bytes, and 1.0."""
    return type(record.get("gold")) is float or len(record["task"].encode()) > ID_MAX_BYTES


@given(nearly_tasks | full_tasks | json_values, st.booleans())
def test_the_validator_takes_exactly_what_the_task_schema_takes(
    record: Any, ascii_only: bool
) -> None:
    value = json.dumps(record, ensure_ascii=ascii_only).encode()
    assert is_taken(value) is (TASK.is_valid(record) and not is_beyond_schema(record))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"t1", b"{", Reason.NOT_JSON),
        (b"t1", b"[]", Reason.NOT_OBJECT),
        (b"t1", b'{"prior": 0.5}', Reason.MISSING_FIELD),
        (b"t1", b'{"task": 1}', Reason.BAD_ID),
        (b"t1", b'{"task": "t1", "prior": 1.0}', Reason.BAD_PRIOR),
        (b"t1", b'{"task": "t1", "prior": "0.5"}', Reason.BAD_PRIOR),
        (b"t1", b'{"task": "t1", "gold": 0}', Reason.BAD_GOLD),
        (b"t1", b'{"task": "t1", "gold": true}', Reason.BAD_GOLD),
        (b"t1", b'{"task": "t1", "status": "done"}', Reason.BAD_STATUS),
        (b"t1", b'{"task": "t1", "more": "%b"}' % (b"x" * MAX_BYTES), Reason.TOO_LARGE),
        (None, None, Reason.NULL_VALUE),
        (b"", None, Reason.NULL_VALUE),
        (b"\xff", None, Reason.BAD_ID),
        (b"x" * 257, None, Reason.BAD_ID),
    ],
)
def test_a_bad_record_has_its_reason(key: bytes, value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_task, key, value) is reason


def test_what_is_written_comes_back_and_a_tombstone_closes() -> None:
    description: Description = {"task": "t1", "prior": 0.25, "gold": -1, "status": "open"}
    assert parse_task(None, encode_task(description)) == description
    assert parse_task("tâche".encode(), None) == {"task": "tâche", "status": "closed"}


@given(EVENTS.filter(bool), RULES)
def test_the_posteriors_of_described_tasks_are_valid(
    events: list[float | Description], rules: StopRules
) -> None:
    stage = new_stage(rules)
    feed(stage, events)
    POSTERIOR.validate(json.loads(encode_posterior(stage.posterior(0, "t1"))))
