"""The settings, metrics, files and tests that the documents name exist."""

import ast
import json
import re
from pathlib import Path

import pytest

from sbic.commands.main import misspelt
from sbic.infer.registry import ALGORITHMS
from sbic.project import revision
from sbic.wire import columns
from tests.docs.documents import DOCUMENTS, ROOT, Document, document
from tests.docs.generate.commands import commands, paragraphs
from tests.docs.generate.metrics import families
from tests.docs.generate.reference import FOLDER, PAGES
from tests.docs.generate.settings import (
    gateway_registries,
    instance_registries,
    push_registries,
    sink_registries,
)
from tests.docs.shell_lines import calls, options_of, parse

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
SOURCES = ROOT / "pipeline"
FOLDERS = "pipeline|tests|docs|deploy|schemas"


@pytest.fixture(scope="module")
def series() -> set[str]:
    """The names of all metrics and of their series."""
    registries = (instance_registries(), gateway_registries(), sink_registries(), push_registries())
    found = [family for some in registries for family in families(some)]
    return {family.name for family in found} | {name for each in found for name in each.series}


@by_name
def test_settings_exist(document: Document) -> None:
    named = set(re.findall(r"\bSBIC_[A-Z_]*[A-Z]\b(?!_?\*)", document.text))
    assert misspelt(named) == []


@by_name
def test_metrics_exist(document: Document, series: set[str]) -> None:
    named = set(re.findall(r"\bsbic_[a-z_]*[a-z]\b(?!_?\*)", document.text))
    assert named - series == set()


@by_name
def test_files_exist(document: Document) -> None:
    for code in document.inline_code():
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]+(?:::\w+)?", code):
            path, _, test = code.partition("::")
            assert (ROOT / path).exists(), code
            assert not test or f"def {test}(" in (ROOT / path).read_text(), code


@by_name
def test_modules_exist(document: Document) -> None:
    for code in document.inline_code():
        if re.fullmatch(r"sbic(?:\.\w+){2,}", code):  # with one dot it is a topic
            parts = code.split(".")
            paths = [SOURCES.joinpath(*parts), SOURCES.joinpath(*parts[:-1])]
            assert any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths), code


def test_the_models_page_has_every_algorithm() -> None:
    models = document("docs/models.md").inline_code()
    assert [name for name in ALGORITHMS if name not in models] == []


# Every link leads somewhere, and every page can be reached from the README.


by_path = pytest.mark.parametrize("page", DOCUMENTS, ids=repr)


@by_path
def test_links_and_anchors_lead_somewhere(page: Document) -> None:
    for link in page.links():
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), link
        if anchor:
            assert anchor in Document(target).anchors(), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [document("README.md").path]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        links = (link.partition("#")[0] for link in Document(path).links())
        waiting += [
            target
            for link in links
            if link.endswith(".md") and (target := (path.parent / link).resolve()).is_file()
        ]
    assert {page.path for page in DOCUMENTS} - reached == set()


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


# Every `sbic` command and `make` target in the documents, and in the help itself, exists.


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


# The generated pages are what the code generates.


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_generated(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run: make docs"


def test_no_other_page_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


# Every row of the table of faults names a test that exists.


ROW = re.compile(r"^\| .* \| `(tests/\S+\.py)::(\w+)` \|$")


def test_each_row_is_a_test() -> None:
    lines = (ROOT / "docs" / "faults.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) > 5
    for row in rows:
        found = ROW.match(row)
        assert found, row
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text(), row


# docs/upgrading.md names the formats that this version reads.


def test_the_formats_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (`sbic\..*`) \| (\d+) \|$", document("docs/upgrading.md").text, re.M)
    formats = {topic: int(number) for topics, number in rows for topic in topics.split(", ")}
    assert formats == {
        **{f"`sbic.{name}`": columns.FORMAT for name in ("answers", "votes", "evidence")},
        "`sbic.estimates`": columns.FORMAT,
        "`sbic.project`": revision.FORMAT,
    }


# What the runbooks quote is printed: messages are in the source, panels on the dashboard.


RUNBOOKS = document("docs/runbooks.md")
# of other programs
ELSEWHERE = {
    "OOMKilled",
    "docker compose ps",
    "kubectl get pods",
}
# tested by `test_names` and `test_commands`
NAMED_ELSEWHERE = re.compile(r"SBIC_\w+|sbic_\w+(\{.*\})?|sbic [a-z].*|deploy/[\w./]+")


def texts() -> str:
    """All strings that the source may print, a field of an f-string or of a log message as NUL; the
    panels and alerts; one on each line. Of docstrings, only commands print theirs."""
    found = [rules.read_text() for rules in (ROOT / "deploy/prometheus").glob("*.yml")]
    for path in (ROOT / "pipeline").rglob("*.py"):
        tree = ast.parse(path.read_text())
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        if path.parent.name == "commands":
            docstrings.clear()
        for node in ast.walk(tree):
            if node in docstrings:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (
                    each.value if isinstance(each, ast.Constant) else FIELD for each in node.values
                )
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%[sd]", FIELD, node.value))
    dashboard = json.loads((ROOT / "deploy/grafana/sbic.json").read_text())
    found += [panel["title"] for panel in dashboard["panels"]]
    return "\n".join(" ".join(text.split()) for text in found)


FIELD = "\0"
TEXTS = texts()


def is_printed(quote: str) -> bool:
    """Whether one text contains the quote; its dots are fields, also in brackets."""
    parts = re.split(r"\[\.\.\.\]|\.\.\.", quote)
    return bool(re.search(f"{FIELD}.*?".join(map(re.escape, parts)), TEXTS))


@pytest.mark.parametrize("quote", sorted(set(RUNBOOKS.inline_code()) - ELSEWHERE))
def test_what_a_runbook_quotes_is_printed(quote: str) -> None:
    assert NAMED_ELSEWHERE.fullmatch(quote) or is_printed(quote)


def test_runbooks_quote_messages() -> None:
    quotes = [quote for quote in RUNBOOKS.inline_code() if not NAMED_ELSEWHERE.fullmatch(quote)]
    assert sum(len(quote.split()) > 2 for quote in quotes) > 5, "or nothing is tested above"


def test_a_message_that_nothing_prints_would_be_found() -> None:
    assert is_printed("the project ... is ...: wait until that is done")
    assert not is_printed("the project ... is done: wait until")
    assert not is_printed("the project is being mended")
