"""Task records: the parser accepts what the schema accepts, and names what is wrong."""

import json
from collections.abc import Callable
from math import fsum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sbic.classes import SIGNS, Classes
from sbic.instance.tasks import StopRules
from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason
from sbic.wire.tasks import MAX_BYTES, Description, encode_task, task_parser
from tests.records.made import reason_of
from tests.stages.lone_tasks import Event, LoneTasks
from tests.stages.test_tasks import EVENTS, RULES
from tests.test_schemas import ids, json_values, schema

TASK = Draft202012Validator(schema("task"))
TASK_OF_SIGNS, TASK_OF_NAMES = (
    Draft202012Validator({**schema("task"), "anyOf": [{"$ref": f"#/$defs/{kind}"}]})
    for kind in ("signs", "names")
)
POSTERIOR = Draft202012Validator(schema("posterior"))

priors_by_name: list[dict[str, Any]] = [
    {},
    {"cat": 1.0},
    {"cat": 0.5, "dog": 0.5},
    {"cat": 0.5, "dog": 0.25, "bird": 0.25},
    {"cat": 0.5, "dog": 0.25, "bird": 0.2500001},
    {"cat": 0.5, "dog": 0.25, "bird": 0.26},
    {"cat": 0.5, "dog": 0.5, "bird": 0},
    {"cat": 0.5, "dog": 0.25, "bird": True},
    {"cat": 0.5, "dog": 0.25, "fish": 0.25},
    {"cat": 0.5, "dog": 0.25, "bird": 0.125, "fish": 0.125},
    {"cat": 0.5, "dog": 0.5, "": 0.1},
]
priors = (
    st.sampled_from([0.5, 0, 1, 0.0, 1.0, -0.5, 1.5, 5e-324, True, "0.5", None])
    | st.sampled_from(priors_by_name)
    | st.floats(0, 1)
)
golds: st.SearchStrategy[Any] = st.sampled_from(
    [1, -1, 0, 2, None, True, 1.0, -1.0, "1", [1], "cat", "dog", "fish", "x" * 65]
)
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


PETS = Classes(("cat", "dog", "bird"))
parse_sign = task_parser(SIGNS)
parse_pet = task_parser(PETS)


def is_taken(value: bytes, parse: Callable[..., object]) -> bool:
    try:
        parse(None, value)
    except BadRecord:
        return False
    return True


def is_beyond_schema(record: dict[str, Any]) -> bool:
    """What the schema's description says that JSON Schema cannot: classes, sums, bytes and 1.0."""
    gold, prior = record.get("gold"), record.get("prior")
    return (
        type(gold) is float
        or (type(gold) is str and gold not in PETS.names)
        or (type(prior) is dict and set(prior) != set(PETS.names))
        or (type(prior) is dict and abs(fsum(prior.values()) - 1) > 1e-6)
        or len(record["task"].encode()) > ID_MAX_BYTES
    )


@given(nearly_tasks | full_tasks | json_values, st.booleans())
def test_the_validator_takes_exactly_what_the_task_schema_takes(
    record: Any, ascii_only: bool
) -> None:
    value = json.dumps(record, ensure_ascii=ascii_only).encode()
    of_signs = TASK_OF_SIGNS.is_valid(record) and not is_beyond_schema(record)
    of_names = TASK_OF_NAMES.is_valid(record) and not is_beyond_schema(record)
    assert is_taken(value, parse_sign) is of_signs
    assert is_taken(value, parse_pet) is of_names
    assert TASK.is_valid(record) or not (of_signs or of_names)


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
    assert reason_of(parse_sign, key, value) is reason


def test_what_is_written_comes_back_and_a_tombstone_closes() -> None:
    description: Description = {"task": "t1", "prior": 0.25, "gold": -1, "status": "open"}
    parsed = {"task": "t1", "prior": [0.75, 0.25], "gold": 0, "status": "open"}
    assert parse_sign(None, encode_task(description)) == parsed
    assert parse_sign("tâche".encode(), None) == {"task": "tâche", "status": "closed"}


@given(EVENTS.filter(bool), RULES)
def test_the_posteriors_of_described_tasks_are_valid(events: list[Event], rules: StopRules) -> None:
    tasks = LoneTasks(rules)
    tasks.feed(events)
    POSTERIOR.validate(tasks.posterior())


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from([1, -1, None]))
def test_what_is_said_of_signs_becomes_numbers_of_classes(prior: float, gold: Any) -> None:
    found = parse_sign(None, encode_task({"task": "t1", "prior": prior, "gold": gold}))
    assert found["prior"] == [1 - prior, prior]
    assert found["gold"] == {1: 1, -1: 0, None: None}[gold]


weights = st.lists(st.floats(1e-3, 1), min_size=3, max_size=3)


@given(weights, st.sampled_from([*PETS.names, None]), st.floats(-1e-7, 1e-7))
def test_what_is_said_of_names_becomes_numbers_of_classes(
    shares: list[float], gold: str | None, off: float
) -> None:
    prior = {
        name: share / fsum(shares) * (1 + off)
        for name, share in zip(reversed(PETS.names), shares, strict=True)
    }
    description: Description = {"task": "t1", "prior": prior, "gold": gold, "status": None}
    found = parse_pet(None, encode_task(description))
    parsed = found["prior"]
    assert parsed is not None
    assert parsed == pytest.approx([prior[name] for name in PETS.names], rel=1e-6)
    assert fsum(parsed) == pytest.approx(1, abs=1e-15)
    assert found["gold"] == PETS.number_of(gold)
    assert found["status"] is None


def test_what_is_not_said_of_a_task_is_not_there() -> None:
    for parse in (parse_sign, parse_pet):
        assert parse(None, b'{"task": "t1", "more": 1}') == {"task": "t1"}
        nothing = b'{"task": "t1", "prior": null, "gold": null, "status": null}'
        expected = {"task": "t1", "prior": None, "gold": None, "status": None}
        assert parse(None, nothing) == expected
        assert parse(b"t1", None) == {"task": "t1", "status": "closed"}


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        (
            {"prior": 0.5},
            Reason.BAD_PRIOR,
            "'prior' must be an object with a probability of each class, or null, not 0.5",
        ),
        (
            {"prior": {"cat": 0.5, "dog": 0.5}},
            Reason.BAD_PRIOR,
            "'prior' has no probability of 'bird'",
        ),
        (
            {"prior": {"cat": 0.5, "dog": 0.25, "bird": 0.125, "fish": 0.125}},
            Reason.BAD_PRIOR,
            "'prior' has 'fish', and the classes are 'cat', 'dog', 'bird'",
        ),
        (
            {"prior": {"cat": 0.5, "dog": 0.5, "bird": 0.0}},
            Reason.BAD_PRIOR,
            "the 'prior' of 'bird' must be a number between 0 and 1, not 0.0",
        ),
        (
            {"prior": {"cat": 0.5, "dog": 0.5, "bird": True}},
            Reason.BAD_PRIOR,
            "the 'prior' of 'bird' must be a number between 0 and 1, not True",
        ),
        (
            {"prior": {"cat": 0.5, "dog": 0.3, "bird": 0.1}},
            Reason.BAD_PRIOR,
            "'prior' must add up to 1, not to 0.9",
        ),
        (
            {"gold": 1},
            Reason.BAD_GOLD,
            "'gold' must be one of 'cat', 'dog', 'bird', or null, not 1",
        ),
        (
            {"gold": "fish"},
            Reason.BAD_GOLD,
            "'gold' must be one of 'cat', 'dog', 'bird', or null, not 'fish'",
        ),
        ({"gold": ["cat"]}, Reason.BAD_GOLD, None),
        (
            {"status": "done"},
            Reason.BAD_STATUS,
            "'status' must be 'open' or 'closed', or null, not 'done'",
        ),
    ],
)
def test_what_is_wrong_with_a_task_of_names_is_said(
    fields: dict[str, Any], reason: Reason, message: str | None
) -> None:
    value = json.dumps({"task": "t1", **fields}).encode()
    assert reason_of(parse_pet, None, value) is reason
    if message is not None:
        with pytest.raises(BadRecord) as bad:
            parse_pet(None, value)
        assert bad.value.message == message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"prior": 1}, "'prior' must be a number between 0 and 1, or null, not 1"),
        ({"gold": 0}, "'gold' must be 1 or -1, or null, not 0"),
        ({"status": "done"}, "'status' must be 'open' or 'closed', or null, not 'done'"),
    ],
)
def test_what_is_wrong_with_a_task_of_signs_is_said(field: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRecord) as bad:
        parse_sign(None, json.dumps({"task": "t1", **field}).encode())
    assert bad.value.message == message
