"""All readers agree which records on the project topic count, and ignore the others."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.project.revision import (
    FIRST,
    Revision,
    encode_revision,
    last_revision,
    parse_revision,
    project_settings,
)
from sbic.project.settings import PROJECT_SETTINGS, Settings

TOPICS = {"sbic.labels": "one", "sbic.answers": "two"}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(alpha=0.1, prior=0.3, repeats="last", seed=7, policy="uniform"),
        Settings(classes="cat, dog,bird", class_prior="0.2, 0.3,0.5", settle_tolerance=1e-7),
    ],
)
def test_a_revision_is_read_as_it_was_written(settings: Settings) -> None:
    written = Revision(3, project_settings(settings), TOPICS, "recounting")
    assert parse_revision(encode_revision(written)) == written
    forwarded = written.next(forwarded={"one": [3, 0]})
    assert parse_revision(encode_revision(forwarded)) == forwarded
    assert forwarded.forwarded_before == {("sbic.labels", 0): 3, ("sbic.labels", 1): 0}
    assert project_settings(written.apply_to(Settings(web_port=7000))) == written.settings


def test_of_two_written_at_once_the_first_wins_and_a_gap_counts_for_nothing() -> None:
    second = FIRST.next(topics=TOPICS)
    rival = FIRST.next(state="deleting")
    third, fifth = second.next(), second.next().next().next()
    written = list(map(encode_revision, [FIRST, second, rival, fifth, third]))
    assert last_revision(written) == third
    assert last_revision(written[3:], second) == third
    assert last_revision(written[1:]) is None


RECORD: dict[str, Any] = json.loads(encode_revision(FIRST))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"revision": "1"},
        {"revision": True},
        {"state": "broken"},
        {"topics": []},
        {"topics": {"sbic.labels": 1}},
        {"forwarded": {"one": [1, "2"]}},
        {"forwarded": {"one": 1}},
        {"settings": None},
        {"settings": []},
        *({"settings": {**RECORD["settings"], name: "?"}} for name in PROJECT_SETTINGS[:9]),
        {"settings": {**RECORD["settings"], "algorithm": "fast-sbic", "classes": "cat,dog"}},
        {"settings": {**RECORD["settings"], "alpha": float("1e400")}},
    ],
)
def test_what_cannot_be_is_ignored(change: dict[str, Any]) -> None:
    assert parse_revision(json.dumps(RECORD | change).encode()) is None


@pytest.mark.parametrize("name", [*RECORD, *(f"settings.{name}" for name in PROJECT_SETTINGS)])
def test_a_deep_long_or_strange_value_is_ignored_wherever_it_is(name: str) -> None:
    field, _, setting = name.partition(".")
    change: Any = {**RECORD["settings"], setting: "HERE"} if setting else "HERE"
    text = json.dumps(RECORD | {field: change}).encode()
    for value in (b"[" * 1000 + b"]" * 1000, b"[" + b"0," * 10_000 + b"0]"):
        assert parse_revision(text.replace(b'"HERE"', value)) is None
    parse_revision(text.replace(b'"HERE"', b'{"a":' * 1000 + b"1" + b"}" * 1000))


def test_a_project_of_an_earlier_version_has_the_defaults_of_later_settings() -> None:
    known = {name: value for name, value in RECORD["settings"].items() if name != "budget"}
    assert parse_revision(json.dumps(RECORD | {"settings": known}).encode()) == FIRST


@given(
    st.binary()
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(repr).map(str.encode)
)
def test_any_other_bytes_are_ignored(value: bytes) -> None:
    assert last_revision([None, value, encode_revision(FIRST)]) == replace(FIRST)
