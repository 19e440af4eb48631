"""The schemas say what the code does: the same labels are good, and what is published is valid."""

import json
from collections.abc import Callable
from math import fsum
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator

from sbic.classes import NAME_MAX_BYTES, RETRACT, SIGNS, SKIP, Classes
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason
from sbic.wire.dead_letters import MAX_BYTES, Origin, dead_letter
from sbic.wire.flat import flat_encoder
from sbic.wire.labels import encode_label, label_parser
from sbic.wire.workers import encode_worker
from tests.records.made import (
    by_name,
    comes_back,
    encode_posterior,
    named_posterior_of,
    posterior_of,
)

FOLDER = Path(__file__).parent.parent / "schemas"
FILES = sorted(FOLDER.glob("*.schema.json"))


def schema(kind: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / f"{kind}.schema.json").read_text())
    return read


def is_valid(kind: str, record: object) -> bool:
    return VALIDATORS[kind].is_valid(record)


KINDS = ("assignment", "label", "posterior", "request", "task", "worker")
VALIDATORS = {kind: Draft202012Validator(schema(kind)) for kind in (*KINDS, "flat")}
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
    [1, -1, 0, None, 2, -2, True, False, 1.0, -1.0, 0.0, "1", [], {}, 10**30, "cat", "dog", "Cat"]
)
PETS = Classes(("cat", "dog", "bird"))
parse_sign = label_parser(SIGNS)
STARS = Classes.of_scale("1..5")
parse_pet, parse_star = label_parser(PETS), label_parser(STARS)
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


def is_taken(value: bytes, parse: Callable[[bytes], object]) -> bool:
    try:
        parse(value)
    except BadRecord:
        return False
    return True


def is_beyond_schema(record: dict[str, Any], classes: Classes) -> bool:
    """What the schema's description says that JSON Schema cannot: classes, bytes, and 1.0."""
    label = record["label"]
    is_class = label in (0, None) or classes.number_of(label) is not None
    return (
        type(label) is float
        or not is_class
        or any(len(record[name].encode()) > ID_MAX_BYTES for name in ("task", "worker"))
    )


def schema_of_labels(classes: Classes) -> Draft202012Validator:
    """The schema for one of the three kinds of projects."""
    content = schema("label")
    kind = "grade" if classes.are_grades else "sign" if classes.is_signs else "name"
    content["properties"]["label"] = {"$ref": f"#/$defs/{kind}"}
    return Draft202012Validator(content)


def classes_with(label: object) -> Classes:
    """The classes of some project in which this may be a label; those by name if it is a string."""
    if type(label) is int and label > 1:
        return STARS
    if type(label) is not str:
        return SIGNS
    try:
        return Classes((label, "another class"))
    except ValueError:
        return PETS


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
    classes = classes_with(record["label"])
    taken = is_taken(json.dumps(record).encode(), label_parser(classes))
    assert taken is not is_beyond_schema(record, classes)


@given(nearly_labels | full_labels | json_values, st.booleans())
def test_the_validator_takes_exactly_what_the_label_schema_takes(
    record: Any, ascii_only: bool
) -> None:
    value = json.dumps(record, ensure_ascii=ascii_only).encode()
    for classes, parse in ((SIGNS, parse_sign), (PETS, parse_pet), (STARS, parse_star)):
        good = schema_of_labels(classes).is_valid(record) and not is_beyond_schema(record, classes)
        assert is_taken(value, parse) is good
        assert is_valid("label", record) or not good


good_ids = ids.filter(lambda name: 0 < len(name.encode()) <= 256)


@given(good_ids, st.sampled_from([1, -1, 0, None]))
def test_the_labels_that_the_tools_write_are_valid(name: str, label: int | None) -> None:
    value = encode_label(name, name, label)
    assert is_valid("label", json.loads(value))
    code = SIGNS.number_of(label) if label else {0: SKIP, None: RETRACT}[label]
    assert parse_sign(value) == (name, name, code)


@given(good_ids, st.sampled_from([*PETS.names, 0, None]))
def test_the_labels_by_name_that_the_tools_write_are_valid(
    name: str, label: int | str | None
) -> None:
    value = encode_label(name, name, label)
    assert is_valid("label", json.loads(value))
    code = {0: SKIP, None: RETRACT}.get(label, PETS.number_of(label))  # type: ignore[arg-type]
    assert parse_pet(value) == (name, name, code)


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
    assert comes_back(SIGNS, posterior)


names = st.text(min_size=1, max_size=NAME_MAX_BYTES).filter(
    lambda name: classes_with(name).names[0] == name
)


@given(
    st.text(min_size=1, max_size=64),
    st.dictionaries(names, st.floats(1e-6, 1), min_size=2, max_size=8),
    counts,
    sources,
    st.integers(0, 8),
)
def test_published_posteriors_by_name_are_valid_and_come_back_to_the_last_bit(
    task: str, shares: dict[str, float], number: int, counted: dict[str, int], gold: int
) -> None:
    classes = Classes(tuple(shares))
    probabilities = [share / fsum(shares.values()) for share in shares.values()]
    posterior = named_posterior_of(
        classes, task, probabilities, number, counted, 0, gold if gold < len(classes) else None
    )
    posterior["prior"] = by_name(classes, probabilities)
    value = encode_posterior(posterior)
    VALIDATORS["posterior"].validate(json.loads(value))
    assert comes_back(classes, posterior)


OF_SIGNS, GOLD_OF_SIGNS, OF_NAMES, GOLD_OF_NAMES, OF_GRADES = schema("posterior")["examples"]


@pytest.mark.parametrize("example", schema("posterior")["examples"])
def test_the_examples_of_posteriors_are_taken(example: dict[str, Any]) -> None:
    shares = example.get("probabilities")
    classes = (
        Classes.of_scale("1..3") if "mean" in example else Classes(tuple(shares or SIGNS.names))
    )
    assert comes_back(classes, example)
    VALIDATORS["flat"].validate(json.loads(flat_encoder(classes)(json.dumps(example).encode())))


@pytest.mark.parametrize(
    ("example", "changes"),
    [
        (OF_SIGNS, {"prediction": "1"}),
        (OF_SIGNS, {"prediction": None}),
        (OF_SIGNS, {"prior": {"-1": 0.5, "1": 0.5}}),
        (GOLD_OF_SIGNS, {"prediction": 0}),
        (GOLD_OF_SIGNS, {"evidence": {"-1": 0.5, "1": 0.5}}),
        (OF_NAMES, {"prediction": 1}),
        (OF_NAMES, {"prediction": ""}),
        (OF_NAMES, {"prediction": "x" * 65}),
        (OF_NAMES, {"confidence": None}),
        (OF_NAMES, {"confidence": 1.5}),
        (OF_NAMES, {"probabilities": 0.5}),
        (OF_NAMES, {"probabilities": {"cat": 1.0}}),
        (OF_NAMES, {"probabilities": {"cat": 1.5, "dog": -0.5}}),
        (OF_NAMES, {"probabilities": {"cat": "0.5", "dog": 0.5}}),
        (OF_NAMES, {"prior": 0.5}),
        (OF_NAMES, {"prior": {"cat": 1.0, "dog": 0.0, "bird": 0.0}}),
        (OF_NAMES, {"gold": True}),
        (OF_NAMES, {"status": "closed"}),
        (OF_NAMES, {"reason": "labels"}),
        (GOLD_OF_NAMES, {"prediction": None}),
        (GOLD_OF_NAMES, {"evidence": 0.5}),
        (OF_NAMES, {"mean": 2.5}),
        (OF_NAMES, {"mean": 2.5, "median": 3, "interval": [2, 3]}),
        (OF_GRADES, {"prediction": "3"}),
        (OF_GRADES, {"median": "3"}),
        (OF_GRADES, {"interval": [2]}),
        (OF_GRADES, {"mean": None}),
    ],
    ids=str,
)
def test_a_posterior_of_one_kind_has_nothing_of_the_other(
    example: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert not is_valid("posterior", {**example, **changes})


@pytest.mark.parametrize("name", ["prediction", "probabilities", "confidence", "labels", "sources"])
def test_a_posterior_by_name_has_all_its_fields(name: str) -> None:
    assert not is_valid("posterior", {key: v for key, v in OF_NAMES.items() if key != name})


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


settled_fields = st.fixed_dictionaries(
    {
        "theta": st.floats(-1, 1),
        "habits": st.dictionaries(
            names | st.sampled_from(SIGNS.names), st.floats(0, 1), min_size=2
        ),
    }
)


@given(settled_fields)
def test_published_workers_under_settled_are_valid(more: dict[str, Any]) -> None:
    record = {**schema("worker")["examples"][0], **more}
    VALIDATORS["worker"].validate(json.loads(encode_worker(record)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "more",
    [
        {"theta": 0.5},
        {"habits": {"cat": 0.5, "dog": 0.5}},
        {"theta": 1.5, "habits": {"cat": 0.5, "dog": 0.5}},
        {"theta": None, "habits": {"cat": 0.5, "dog": 0.5}},
        {"theta": 0.5, "habits": {"cat": 1.0}},
        {"theta": 0.5, "habits": [0.5, 0.5]},
        {"theta": 0.5, "habits": {"cat": 1.5, "dog": 0.5}},
    ],
    ids=str,
)
def test_what_settled_does_not_say_of_a_worker_is_not_valid(more: dict[str, Any]) -> None:
    assert not is_valid("worker", {**schema("worker")["examples"][0], **more})


# The AsyncAPI document says what the code does: topics, keys, and the headers of dead letters.


ASYNCAPI = yaml.safe_load((FOLDER / "asyncapi.yaml").read_text())
TOPICS = list(Topics(Settings(flat=True)))


def channels() -> dict[str, Any]:
    found: dict[str, Any] = ASYNCAPI["channels"]
    return found


def test_the_document_has_every_topic_and_no_other() -> None:
    prefix = ASYNCAPI["components"]["parameters"]["prefix"]["default"]
    addresses = {channel["address"].format(prefix=prefix) for channel in channels().values()}
    assert addresses == {topic.name for topic in TOPICS}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_the_document_describes_each_topic_as_it_is_made(topic: Topic) -> None:
    channel = channels()[topic.name.removeprefix("sbic.")]
    binding = channel["bindings"]["kafka"]
    assert binding["partitions"] == topic.partitions
    assert binding["replicas"] == topic.replication
    config = {name: str(value) for name, value in binding["topicConfiguration"].items()}
    config["cleanup.policy"] = ",".join(binding["topicConfiguration"]["cleanup.policy"])
    assert config == dict(topic.config)
    is_internal = {"name": "internal"} in channel.get("tags", [])
    assert is_internal is not topic.public
    assert topic.public is bool(channel.get("messages"))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_records_keyed_by_an_id_say_so(topic: Topic) -> None:
    for message in channels()[topic.name.removeprefix("sbic.")].get("messages", {}).values():
        binding = resolve(message).get("bindings", {}).get("kafka", {})
        assert ("key" in binding) is (topic.key in ("worker", "task"))


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    """What a reference inside the document stands for."""
    found: Any = ASYNCAPI
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    result: dict[str, Any] = found
    return result


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in references(value)]
    if isinstance(node, list):
        return [ref for value in node for ref in references(value)]
    return []


def test_every_reference_of_the_document_leads_somewhere() -> None:
    found = references(ASYNCAPI)
    assert found
    for reference in found:
        if reference.startswith("#/"):
            resolve({"$ref": reference})
        else:
            assert (FOLDER / reference).is_file()
    referenced = {FOLDER / reference for reference in found if not reference.startswith("#")}
    printed = "status.schema.json", "report.schema.json"  # what commands print
    on_no_topic = {FOLDER / name for name in printed}
    assert referenced == set(FOLDER.glob("*.schema.json")) - on_no_topic


MESSAGES: dict[str, Any] = ASYNCAPI["components"]["messages"]


@pytest.mark.parametrize("name", [name for name, m in MESSAGES.items() if "examples" in m])
def test_the_examples_of_a_message_are_what_its_schema_takes(name: str) -> None:
    content = json.loads((FOLDER / MESSAGES[name]["payload"]["schema"]["$ref"]).read_text())
    for example in MESSAGES[name]["examples"]:
        Draft202012Validator(content).validate(example["payload"])


@pytest.mark.parametrize("name", ["label", "task", "posterior"])
def test_what_depends_on_the_classes_has_an_example_of_each_kind(name: str) -> None:
    summaries = {example["summary"] for example in MESSAGES[name]["examples"]}
    assert summaries >= {
        "In a project with the classes -1 and 1.",
        "In a project whose classes have names.",
    }


def dead_letter_headers_schema() -> dict[str, Any]:
    headers: dict[str, Any] = ASYNCAPI["components"]["messages"]["deadLetter"]["headers"]
    return headers


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("size", [0, MAX_BYTES + 1])
def test_dead_letters_have_the_headers_that_the_document_says(reason: Reason, size: int) -> None:
    letter = dead_letter(Origin("sbic.labels", 3, 42), b"w1", b"x" * size, BadRecord(reason, "why"))
    headers = {name: value.decode() for name, value in letter.headers}
    content = {**dead_letter_headers_schema(), "additionalProperties": False}
    Draft202012Validator(content).validate(headers)


def test_the_document_lists_the_reasons_and_no_other() -> None:
    name = "__connect.errors.exception.class.name"
    assert dead_letter_headers_schema()["properties"][name]["enum"] == list(Reason)
