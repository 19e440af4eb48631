"""Truths in the terms of the labels that they go with."""

from pathlib import Path

import pytest

from sbic.engine import SIGN_NAMES
from sbic.engine.labels import Labels
from sbic.files.labels import DEFAULT, Reading, read_truth, truth_of
from sbic.files.tables import BadFile

PETS = ("cat", "dog")


def truth_from(
    folder: Path, content: str, classes: tuple[str, ...], reading: Reading = DEFAULT
) -> dict[str, int]:
    path = folder / "truth.csv"
    path.write_text(content)
    return read_truth(str(path), classes, reading)


def test_truths_are_matched_by_name(tmp_path: Path) -> None:
    labels = Labels.of([("t1", "ann", 1), ("t2", "ann", 1), ("t3", "ann", 1)])
    truth = truth_from(tmp_path, "truth,task\n-1.0, t2\n0,t3\n1,other\n-1,t2\n", SIGN_NAMES)
    assert truth_of(labels, truth).tolist() == [-1, 0, -1]


def test_a_truth_is_the_number_of_its_class_and_minus_1_if_unknown(tmp_path: Path) -> None:
    assert truth_from(tmp_path, "task,truth\nt1,\nt2,+1\n,\n", SIGN_NAMES) == {"t1": -1, "t2": 1}
    content = "task,truth\nt1,\nt2,dog\nt3,cat\nt4,?\n"
    found = truth_from(tmp_path, content, PETS, Reading(skip=("?",)))
    assert found == {"t1": -1, "t2": 1, "t3": 0, "t4": -1}
    labels = Labels.of_answers([("t2", "ann", 0), ("t9", "ann", 0)], PETS)
    assert truth_of(labels, found).tolist() == [1, -1]


def test_zero_is_a_truth_where_it_is_a_class(tmp_path: Path) -> None:
    assert truth_from(tmp_path, "task,truth\nt1,0\nt2,1\n", ("0", "1")) == {"t1": 0, "t2": 1}


def test_a_truth_that_no_label_has_is_beyond_the_classes(tmp_path: Path) -> None:
    assert truth_from(tmp_path, "task,truth\nt1,bird\nt2,0\n", PETS) == {"t1": 2, "t2": 2}


def test_positive_and_negative_are_read_as_in_the_labels(tmp_path: Path) -> None:
    reading = Reading(positive="yes", negative="no", columns={"truth": "Gold"})
    found = truth_from(tmp_path, "task;gold\na;yes\nb;no\nc;\nd;-1\n", SIGN_NAMES, reading)
    assert found == {"a": 1, "b": 0, "c": -1, "d": 0}
    zero = Reading(positive="1", negative="0")
    assert truth_from(tmp_path, "task,truth\na,0\n", SIGN_NAMES, zero) == {"a": 0}


def test_the_column_of_the_task_may_have_the_name_that_it_has_in_the_labels(
    tmp_path: Path,
) -> None:
    reading = Reading(columns={"task": "HITId"})
    assert truth_from(tmp_path, "HITId,truth\na,1\n", SIGN_NAMES, reading) == {"a": 1}
    assert truth_from(tmp_path, "Task,truth\na,1\n", SIGN_NAMES, reading) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "classes", "reading", "problem"),
    [
        ("task,truth\nt1,2\n", SIGN_NAMES, DEFAULT, "line 2: a truth is 1, -1, or 0 if unknown"),
        (
            "task,truth\nt1,1\nt1,-1\n",
            SIGN_NAMES,
            DEFAULT,
            "line 3: the task 't1' has another truth",
        ),
        ("task,label\nt1,1\n", SIGN_NAMES, DEFAULT, "line 1: the column 'truth' is missing"),
        ("task,truth\n,1\n", SIGN_NAMES, DEFAULT, "line 2: the task is empty"),
        (
            "task,truth\nt1,maybe\n",
            SIGN_NAMES,
            Reading(positive="yes", negative="no"),
            "line 2: a truth is one of no, yes, or empty if unknown, not 'maybe'",
        ),
        (
            "task,truth\nt1,cat\nt2,bird\n",
            PETS,
            Reading(classes=PETS),
            "line 3: a truth is one of cat, dog, or empty if unknown, not 'bird'",
        ),
    ],
)
def test_a_bad_truth_is_told_with_its_line(
    tmp_path: Path, content: str, classes: tuple[str, ...], reading: Reading, problem: str
) -> None:
    with pytest.raises(BadFile, match=problem):
        truth_from(tmp_path, content, classes, reading)
