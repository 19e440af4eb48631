"""Which settings of a project can be changed, and which changes need a recount."""

import pytest

from sbic.project.changes import BadChange, change, read_assignments
from sbic.project.revision import FIRST, Revision, project_settings
from sbic.project.settings import BadSetting, Settings

PETS = Revision(4, project_settings(Settings(classes="cat,dog")), {})


@pytest.mark.parametrize(
    ("revision", "text", "needs_recount"),
    [
        (FIRST, "policy=uniform", False),
        (FIRST, "seed=4", False),
        (FIRST, "lease-seconds=60", False),
        (FIRST, "retention_hours=24", False),
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
            "stop_labels=3",
            "is a setting of each instance, not of the project: set it with --stop-labels",
        ),
        ("partitions=9", "cannot be changed"),
        ("replication=3", "kafka-reassign-partitions"),
        ("alpha=-1", "SBIC_ALPHA must be a positive number, not '-1'"),
    ],
)
def test_what_cannot_be_changed_is_said(text: str, problem: str) -> None:
    with pytest.raises((BadChange, BadSetting)) as bad:
        change(FIRST, read_assignments([text]), has_labels=False)
    assert problem in str(bad.value)
