"""Which settings of a project can be changed, and which changes need a recount."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.project.changes import BadChange, change, read_assignments
from sbic.project.revision import (
    FIRST,
    Revision,
    encode_revision,
    last_revision,
    parse_revision,
    project_settings,
)
from sbic.project.settings import PROJECT_SETTINGS, SPECS, BadSetting, Settings

PETS = Revision(4, project_settings(Settings(classes="cat,dog")), {})


@pytest.mark.parametrize(
    ("revision", "text", "needs_recount"),
    [
        (FIRST, "policy=uniform", False),
        (FIRST, "seed=4", False),
        (FIRST, "lease-seconds=60", False),
        (FIRST, "retention_hours=24", False),
        (FIRST, "stop_confidence=0.9", False),
        (FIRST, "alpha=3", True),
        (FIRST, "prior=0.3", True),
        (FIRST, "repeats=last", True),
        (FIRST, "algorithm=settled", True),
        (PETS, "class_prior=uniform", True),
        (PETS, "classes=cat,dog,bird", True),
    ],
)
def test_some_settings_change_at_once_and_some_by_a_recount(
    revision: Revision, text: str, needs_recount: bool
) -> None:
    found = change(revision, read_assignments([text]), has_labels=True)
    assert found.names
    assert found.needs_recount is needs_recount


def test_rules_are_followed_at_once_and_nothing_else_is() -> None:
    followed = {name for name in PROJECT_SETTINGS if SPECS[name].change == "at once"}
    assert followed >= {"stop_confidence", "stop_error", "stop_labels"}
    assert followed >= {"budget", "block_below", "block_after"}
    rules = {"stop_labels": "3", "budget": "100"}
    found = change(FIRST, rules, has_labels=True)
    assert found.is_followed
    later = FIRST.next(settings=found.settings)
    assert FIRST.is_followed_by(later)
    off = change(later, {"budget": "none", "stop_labels": "3"}, has_labels=True)
    assert off.names == ("budget",)
    assert off.settings["budget"] is None
    both = change(FIRST, rules | {"policy": "uniform"}, has_labels=True)
    assert not both.is_followed
    assert not FIRST.is_followed_by(FIRST.next(settings=both.settings))
    assert not FIRST.is_followed_by(later.next(state="recounting"))
    assert not FIRST.is_followed_by(later.next(topics={"sbic.votes": "another"}))


def test_what_is_so_already_changes_nothing() -> None:
    texts = {"alpha": "2", "classes": "1,-1", "partitions": "8"}
    assert change(FIRST, texts, has_labels=True).names == ()


@pytest.mark.parametrize(
    ("revision", "classes"),
    [
        (FIRST, "cat,dog"),
        (PETS, "dog,cat"),
        (PETS, "cat"),
        (PETS, "cat,bird"),
        (PETS, "-1,1"),
    ],
)
def test_classes_of_labels_stay(revision: Revision, classes: str) -> None:
    with pytest.raises((BadChange, BadSetting)):
        change(revision, {"classes": classes}, has_labels=True)


@pytest.mark.parametrize("classes", ["cat,dog", "dog,cat,bird", "-1,1"])
def test_a_project_without_labels_can_have_any_classes(classes: str) -> None:
    for revision in (FIRST, PETS):
        found = change(revision, {"classes": classes}, has_labels=False)
        assert found.settings["classes"] == classes


def test_the_prior_of_the_other_algorithm_is_left_behind() -> None:
    skewed = Revision(2, project_settings(Settings(prior=0.3)), {})
    found = change(skewed, {"algorithm": "settled"}, has_labels=True)
    assert (found.settings["prior"], found.settings["class_prior"]) == (0.5, "learned")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alpha", "is not NAME=VALUE"),
        ("alfa=3", "did you mean alpha?"),
        (
            "web_port=3",
            "is a setting of each process, not of the project: set it with --web-port",
        ),
        ("partitions=9", "cannot be changed"),
        ("alpha=none", "SBIC_ALPHA must be a positive number, not 'none'"),
        ("replication=3", "kafka-reassign-partitions"),
        ("alpha=-1", "SBIC_ALPHA must be a positive number, not '-1'"),
    ],
)
def test_what_cannot_be_changed_is_said(text: str, problem: str) -> None:
    with pytest.raises((BadChange, BadSetting)) as bad:
        change(FIRST, read_assignments([text]), has_labels=False)
    assert problem in str(bad.value)


# All readers agree which records on the project topic count, and ignore the others.


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
