"""Files of tasks in every form in which people have them."""

from pathlib import Path

import pytest

from sbic.engine import SIGN_NAMES
from sbic.engine.labels import Labels
from sbic.files.labels import DEFAULT, Reading, read_truth, truth_of
from sbic.files.tables import BadFile, TextFile
from sbic.files.tasks import TaskRow, task_table

PETS = ("cat", "dog", "bird")


def rows(
    text: str, reading: Reading = DEFAULT, classes: tuple[str, ...] = SIGN_NAMES
) -> list[TaskRow]:
    return [row for _, row in task_table(TextFile("tasks.csv", text), reading, classes).rows]


@pytest.mark.parametrize(
    "text",
    [
        "task,prior,gold\nt1,0.3,1\nt2,,\n",
        "GOLD;Task;prior\n+1; t1 ;0.3\n;t2;\n;;\n",
        "gold\ttask\tprior\n1.0\tt1\t 0.3\n\tt2\t\n",
        '{"task": "t1", "prior": 0.3, "gold": 1}\n{"task": "t2"}\n',
        '{"task": "t1", "prior": 3e-1, "gold": "1.0"}\n{"gold": null, "task": "t2"}\n',
    ],
)
def test_the_same_tasks_are_read_from_every_form(text: str) -> None:
    assert rows(text) == [("t1", 0.3, 1), ("t2", None, None)]


def test_a_single_column_is_enough_and_needs_no_delimiter() -> None:
    assert rows('task\nt1\n\n"t,2"\nt;3\n') == [
        ("t1", None, None),
        ("t,2", None, None),
        ("t;3", None, None),
    ]


def test_columns_that_are_not_read_are_named() -> None:
    table = task_table(TextFile("tasks.csv", "task,truth,Gold,note\nt1,1,,x\n"))
    assert [*table.rows] == [(2, ("t1", None, None))]
    assert [*table.unread] == ["truth", "note"]
    renamed = task_table(TextFile("x", "task,truth\nt1,1\n"), Reading(columns={"gold": "truth"}))
    assert [*renamed.rows] == [(2, ("t1", None, 1))]
    assert not renamed.unread


def test_a_column_that_was_named_must_be_there() -> None:
    with pytest.raises(BadFile, match="line 1: the column 'score' is missing"):
        rows("task,gold\nt1,1\n", Reading(columns={"prior": "score"}))


def test_a_line_of_json_may_leave_out_a_field_that_was_named() -> None:
    lines = '{"task": "t1", "truth": 1}\n{"task": "t2"}\n'
    assert rows(lines, Reading(columns={"gold": "truth"})) == [("t1", None, 1), ("t2", None, None)]


def test_a_task_is_the_same_with_blanks_around_it() -> None:
    with pytest.raises(BadFile, match="line 3: the task 't1' is already on line 2"):
        rows("task\nt1\n t1 \n")


@pytest.mark.parametrize(
    "text",
    [
        "task,gold,p:cat,p:dog,p:bird\nt1,dog,0.25,0.5,0.25\nt2,,,,\n",
        "P:Bird;p:cat; p:DOG;Gold;task\n0.25;.25; 0.5;dog;t1\n;;;;t2\n;;;;\n",
        '{"task": "t1", "prior": {"dog": 0.5, "cat": 0.25, "bird": 2.5e-1}, "gold": "dog"}\n'
        '{"task": "t2", "prior": null}\n',
        'task,gold,prior\nt1,dog,"{""cat"": 0.25, ""dog"": 0.5, ""bird"": 0.25}"\nt2,,\n',
    ],
)
def test_gold_and_priors_of_named_classes_are_read_from_every_form(text: str) -> None:
    prior = {"cat": 0.25, "dog": 0.5, "bird": 0.25}
    assert rows(text, classes=PETS) == [("t1", prior, "dog"), ("t2", None, None)]


def test_numbers_are_names_of_classes_too() -> None:
    text = "task,gold\nt1,0\nt2,1.0\n"
    assert [row.gold for row in rows(text, classes=("0", "1", "2"))] == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task,gold\nt1,fish\n", "line 2: gold is cat, dog, bird, or empty if it is not known"),
        ("task,gold\nt1,1\n", "not '1'$"),
        ("task,prior\nt1,0.3\n", "line 2: a prior is an object .* p:cat, p:dog, p:bird; not '0.3'"),
        ("task,p:cat\nt1,1.5\n", "line 2: a prior is between 0 and 1, not '1.5'"),
        (
            'task,prior,p:cat\nt1,"{""cat"": 0.3}",0.3\n',
            "line 2: has a prior and columns p:<class>;",
        ),
    ],
)
def test_what_named_classes_cannot_have_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(BadFile, match=problem):
        rows(text, classes=PETS)


def test_an_object_is_only_a_prior_and_only_where_classes_have_names() -> None:
    lines = '{"task": "t1", "prior": {"cat": 0.5}}\n'
    with pytest.raises(BadFile, match="line 1: has a list or an object"):
        rows(lines)
    with pytest.raises(BadFile, match="line 1: has a list or an object"):
        rows('{"task": {"id": "t1"}}\n', classes=PETS)


def test_gold_in_another_case_is_the_class_if_the_user_says_so() -> None:
    reading = Reading(ignore_case=True)
    assert [row.gold for row in rows("task,gold\nt1,CAT\n", reading, ("cat", "dog"))] == ["cat"]
    signs = Reading(positive="yes", negative="no", ignore_case=True)
    assert [row.gold for row in rows("task,gold\nt1,YES\nt2,No\n", signs)] == [1, -1]


# Truths in the terms of the labels that they go with.


PET_LABELS = ("cat", "dog")


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
    found = truth_from(tmp_path, content, PET_LABELS, Reading(skip=("?",)))
    assert found == {"t1": -1, "t2": 1, "t3": 0, "t4": -1}
    labels = Labels.of_answers([("t2", "ann", 0), ("t9", "ann", 0)], PET_LABELS)
    assert truth_of(labels, found).tolist() == [1, -1]


def test_zero_is_a_truth_where_it_is_a_class(tmp_path: Path) -> None:
    assert truth_from(tmp_path, "task,truth\nt1,0\nt2,1\n", ("0", "1")) == {"t1": 0, "t2": 1}


def test_a_truth_that_no_label_has_is_beyond_the_classes(tmp_path: Path) -> None:
    assert truth_from(tmp_path, "task,truth\nt1,bird\nt2,0\n", PET_LABELS) == {"t1": 2, "t2": 2}


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
            PET_LABELS,
            Reading(classes=PET_LABELS),
            "line 3: a truth is one of cat, dog, or empty if unknown, not 'bird'",
        ),
    ],
)
def test_a_bad_truth_is_told_with_its_line(
    tmp_path: Path, content: str, classes: tuple[str, ...], reading: Reading, problem: str
) -> None:
    with pytest.raises(BadFile, match=problem):
        truth_from(tmp_path, content, classes, reading)
