"""Which settings of a project can be changed, and which changes need a recount."""

import pytest

from sbic.project.changes import BadChange, change, read_assignments
from sbic.project.revision import FIRST, Revision, project_settings
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
