"""Python in the documents that needs no Kafka runs as it stands."""

from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS

ELSEWHERE = ("127.0.0.1", "verdicts.jsonl", "inspect_ai")
"""What test_on_kafka.py, the tests of the gateway and those of `make integrations` run."""

PURE = [
    pytest.param(block.text, id=f"{document}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(document.blocks("python"))
    if not any(word in block.text for word in ELSEWHERE)
]


@pytest.mark.parametrize("program", PURE)
def test_it_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "a document", "exec"), {})


def test_there_is_some() -> None:
    assert PURE
