"""Python in the documents that needs no Kafka runs as it stands."""

from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS

ON_KAFKA = ("127.0.0.1", "verdicts.jsonl")
"""What test_on_kafka.py and the tests of the gateway run."""

PURE = [
    pytest.param(block.text, id=f"{document}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(document.blocks("python"))
    if not any(word in block.text for word in ON_KAFKA)
]


@pytest.mark.parametrize("program", PURE)
def test_it_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "a document", "exec"), {})


def test_there_is_some() -> None:
    assert PURE
