"""Every JSON in the documents is valid: records against their schemas, answers of HTTP as such."""

from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from orjson import loads

from tests.docs.documents import DOCUMENTS, ROOT, Document

HTTP = {"labels", "error", "problems"}  # what the gateway answers: see tests/gateway/test_docs.py


def values(text: str) -> Iterator[Any]:
    """The values that follow each other in a block."""
    text = text.strip()
    while text:
        value, end = JSONDecoder().raw_decode(text)
        yield value
        text = text[end:].lstrip()


def kind_of(record: dict[str, Any]) -> str:
    """The record that has such fields."""
    if {"log_odds", "probabilities"} & record.keys():
        return "posterior"
    if "accuracy" in record:
        return "worker"
    if "id" in record:
        return "assignment"
    if "label" in record:
        return "label"
    return "task" if "task" in record else "request"


WITH_JSON = [document for document in DOCUMENTS if document.blocks("json")]


@pytest.mark.parametrize("document", WITH_JSON, ids=repr)
def test_records_are_valid(document: Document) -> None:
    for block in document.blocks("json"):
        for record in values(block.text):
            if not record.keys() <= HTTP:
                path = ROOT / "schemas" / f"{kind_of(record)}.schema.json"
                Draft202012Validator(loads(path.read_bytes())).validate(record)
