"""What others wrote appears in messages cut short, whatever it is."""

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.foreign import MOST, printable, shown

SOURCES = sorted((Path(__file__).parent.parent / "pipeline").rglob("*.py"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(VALUES)
def test_a_value_looks_as_python_writes_it_up_to_the_limit(value: Any) -> None:
    text = shown(value)
    assert len(text) <= MOST + 1
    if not text.endswith("…"):
        assert text == repr(value)
    else:
        assert repr(value).startswith(text[: MOST // 2]) or "'" in text  # quotes may differ


def nested(depth: int, *, in_objects: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if in_objects else [value]
    return value


STRANGE = {
    "deep lists": nested(2000),
    "deep objects": nested(2000, in_objects=True),
    "very deep lists": nested(1_000_000),
    "a long list": [0] * 1_000_000,
    "a large object": dict.fromkeys(range(1_000_000)),
    "many digits": 10**5000,
    "many digits, negative": -(10**5000),
    "many digits in a list": [10**5000],
    "half surrogate pairs": "\ud800" * 1_000_000,
    "bytes": b"\xff" * 1_000_000,
    "control characters": "\x00\x1b[2J\u202e",
    "an object of Python": object(),
}


@pytest.mark.parametrize("name", STRANGE)
def test_no_value_is_too_deep_too_long_or_too_strange(name: str) -> None:
    text = shown(STRANGE[name])
    assert len(text) <= MOST + 1
    assert text.isprintable()
    text.encode()


# values of this program's own: how a class is written in messages, and a name that is hashed
OWN = {("classes.py", "repr"), ("policy.py", "repr")}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_message_contains_a_value_in_any_other_way(path: Path) -> None:
    """Not by `!r`, `%r`, `repr` or `ascii`, wherever it may come from."""
    if path.name == "foreign.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        found = how_it_quotes(node)
        if found and (path.name, found) not in OWN:
            line = getattr(node, "lineno", 0)
            pytest.fail(f"{path.name}, line {line}: write {{shown(value)}}, not {found}")


def how_it_quotes(node: ast.AST) -> str | None:
    """How a piece of code writes a value as Python would, which no depth may make it do."""
    match node:
        case ast.FormattedValue(conversion=conversion) if conversion in (ord("r"), ord("a")):
            return "!r"
        case ast.Call(func=ast.Name(id="repr" | "ascii" | "pformat" as name)):
            return name
        case ast.Name(id="repr" | "ascii", ctx=ast.Load()):
            return "repr"
        case ast.Constant(value=str(text)) if "%r" in text or "!r}" in text:
            return "%r"
        case _:
            return None


QUOTING = (
    *('f"{value!r}"', 'f"{value!a}"', "repr(value)", "map(repr, values)"),
    *('"%r" % value', '"{!r}".format(value)'),
)


@pytest.mark.parametrize("code", QUOTING)
def test_a_value_in_a_message_would_be_found(code: str) -> None:
    assert any(how_it_quotes(node) for node in ast.walk(ast.parse(code)))


@given(st.text())
def test_what_is_printed_has_no_character_that_controls_a_terminal(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_lines_are_kept_where_they_are_part_of_the_output() -> None:
    assert printable("a\x1b[2J\nb\u202e\x9b", keep="\n") == "a\\x1b[2J\nb\\u202e\\x9b"
