"""What the runbooks quote is printed: messages are in the source, panels on the dashboard."""

import ast
import json
import re

import pytest

from tests.docs.documents import ROOT, document

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
