"""Every `sbic` command and `make` target in the documents, and in the help itself, exists."""

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, Document
from tests.docs.generate.commands import commands, paragraphs
from tests.docs.shell_lines import calls, options_of, parse

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
PLACEHOLDERS = ("NAME", "COMMAND", "...")


@by_name
def test_the_blocks_have_commands_that_can_be_read(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for script in document.shell():
        for call in calls(script):
            parse(call, tmp_path, monkeypatch)


@by_name
def test_commands_in_the_text_exist_with_their_options(document: Document) -> None:
    for code in document.inline_code():
        found = re.search(r"(?:^|[ /])sbic ((?!\.).+)", code)
        if found and not found[1].startswith(PLACEHOLDERS):
            command, unknown = options_of(found[1].split())
            assert command is not None, code
            assert not unknown, code


@by_name
def test_targets_of_make_exist(document: Document) -> None:
    code = [*document.inline_code(), *document.shell()]
    named = {name for text in code for name in re.findall(r"\bmake ([a-z-]+)", text)}
    assert named <= TARGETS


@pytest.mark.parametrize("path", [each.path for each in commands()])
def test_the_examples_of_the_help_can_be_read(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (each,) = [each for each in commands() if each.path == path]
    _, examples = paragraphs(each.command)
    for call in calls(examples):
        parse(call, tmp_path, monkeypatch)


def test_every_command_has_an_example() -> None:
    assert [each.path for each in commands() if not paragraphs(each.command)[1]] == []
