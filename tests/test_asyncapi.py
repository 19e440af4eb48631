"""The AsyncAPI document says what the code does: topics, keys, and the headers of dead letters."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import MAX_BYTES, Origin, dead_letter

FOLDER = Path(__file__).parent.parent / "schemas"
ASYNCAPI = yaml.safe_load((FOLDER / "asyncapi.yaml").read_text())
TOPICS = list(Topics(Settings()))


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
