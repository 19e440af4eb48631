"""What the labels of a file mean: 1 and -1, or classes of any names."""

from pathlib import Path

import pytest

from sbic.engine import SIGN_NAMES
from sbic.engine.labels import Labels
from sbic.files.labels import MAX_CLASSES, Reading, read_labels, read_truth, truth_of
from tests.files.test_forms import labels_from, problem_of
from tests.inference.crowds import real_crowds


def column(*labels: str) -> str:
    rows = [f't{number},ann,"{label}"\n' for number, label in enumerate(labels)]
    return "task,worker,label\n" + "".join(rows)


def answers(labels: Labels) -> dict[str, str]:
    """The class of each task that has one."""
    return {
        labels.task_names[task]: labels.classes[answer]
        for task, answer in zip(labels.task.tolist(), labels.answer.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("found", "classes"),
    [
        (["1", "-1"], SIGN_NAMES),
        (["1"], SIGN_NAMES),
        (["-1"], SIGN_NAMES),
        (["0", "1", "-1"], SIGN_NAMES),
        (["-1.0", "0.0", "+1"], SIGN_NAMES),
        (["0", "-1"], SIGN_NAMES),
        (["", ""], SIGN_NAMES),
        (["dog", "cat"], ("cat", "dog")),
        (["yes", "no", ""], ("no", "yes")),
        (["2", "10", "0", "1"], ("0", "1", "2", "10")),
        (["2", "1", "2.0"], ("1", "2")),
        (["1", "-1", "0", "2"], ("-1", "0", "1", "2")),
        (["10", "9", "b"], ("10", "9", "b")),
        (["007", "7"], ("007", "7")),
        (["Yes", "yes"], ("Yes", "yes")),
        (["0.5", "1.5"], ("0.5", "1.5")),
        (["9" * 5000, "1"], ("1", "9" * 5000)),
        (["a,b", "c"], ("a,b", "c")),
        (["cat"], ("cat",)),
    ],
)
def test_the_classes_are_found_in_the_file(
    tmp_path: Path, found: list[str], classes: tuple[str, ...]
) -> None:
    assert labels_from(tmp_path, column(*found)).classes == classes


def test_zero_is_a_skip_beside_1_and_minus_1_and_a_class_beside_others(tmp_path: Path) -> None:
    signs = labels_from(tmp_path, column("0", "1", "-1", ""))
    assert (answers(signs), signs.skips) == ({"t1": "1", "t2": "-1"}, 2)
    classes = labels_from(tmp_path, column("0", "1", "2", ""))
    assert (answers(classes), classes.skips) == ({"t0": "0", "t1": "1", "t2": "2"}, 1)


@pytest.mark.parametrize("found", [["0", "1"], ["0"], ["0.0", "+1", ""]])
def test_zeros_and_ones_alone_are_refused_with_the_ways_out(
    tmp_path: Path, found: list[str]
) -> None:
    problem = problem_of(tmp_path, column(*found))
    assert "--classes 0,1" in problem
    assert "--skip 0" in problem
    as_classes = labels_from(tmp_path, column(*found), Reading(classes=("0", "1")))
    assert answers(as_classes)["t0"] == "0"
    as_skips = labels_from(tmp_path, column(*found), Reading(skip=("0",)))
    assert as_skips.are_signs
    assert "t0" not in answers(as_skips)
    as_signs = labels_from(tmp_path, column(*found), Reading(positive="1", negative="0"))
    assert as_signs.are_signs
    assert answers(as_signs)["t0"] == "-1"


def test_positive_and_negative_become_1_and_minus_1(tmp_path: Path) -> None:
    reading = Reading(positive="yes", negative="no", skip=("unsure",))
    labels = labels_from(tmp_path, column("yes", "no", "unsure", "", " yes "), reading)
    assert labels.label.tolist() == [1, -1, 1]
    assert labels.skips == 2
    assert problem_of(tmp_path, column("yes", "Yes"), reading) == (
        ", line 3: the label 'Yes' is not one of no, yes (to treat them alike: --ignore-case)"
    )
    swapped = Reading(positive="-1", negative="1")
    assert labels_from(tmp_path, column("1", "-1"), swapped).label.tolist() == [-1, 1]


def test_named_classes_keep_their_order_and_nothing_else_is_a_label(tmp_path: Path) -> None:
    reading = Reading(classes=("dog", "cat", "bird"))
    labels = labels_from(tmp_path, column("cat", "dog", ""), reading)
    assert (labels.classes, labels.answer.tolist(), labels.skips) == (
        ("dog", "cat", "bird"),
        [1, 0],
        1,
    )
    problem = problem_of(tmp_path, column("cat", "dgo", "cta"), reading)
    assert problem.startswith(", line 3: the label 'dgo' is not one of dog, cat, bird")
    numbers = Reading(classes=("2.0", "+1"))
    assert labels_from(tmp_path, column("1", "2.0"), numbers).answer.tolist() == [1, 0]


def test_1_and_minus_1_stay_what_they_are_in_whichever_order_they_are_named(
    tmp_path: Path,
) -> None:
    reading = Reading(classes=("1", "-1"))
    assert labels_from(tmp_path, column("1", "-1"), reading).label.tolist() == [1, -1]
    assert "line 3: the label '0' is not one of 1, -1" in problem_of(
        tmp_path, column("1", "0"), reading
    )


def test_a_skip_leaves_the_other_labels_what_they_are(tmp_path: Path) -> None:
    labels = labels_from(tmp_path, column("cat", "?", "dog"), Reading(skip=("?",)))
    assert (labels.classes, labels.skips) == (("cat", "dog"), 1)
    assert labels_from(tmp_path, column("1", "2", "-1"), Reading(skip=("2",))).are_signs


def test_labels_that_differ_only_in_case_are_one_if_the_user_says_so(tmp_path: Path) -> None:
    found = column("Ja", "ja", "NEIN", "nein", "Weiß nicht", "WEISS NICHT")
    two = labels_from(tmp_path, found)
    assert len(two.classes) == 6
    one = labels_from(tmp_path, found, Reading(ignore_case=True))
    assert one.classes == ("Ja", "NEIN", "Weiß nicht")
    assert answers(one) == dict(zip(two.task_names, sorted(one.classes * 2), strict=True))
    given = Reading(classes=("ja", "nein"), skip=("weiß nicht",), ignore_case=True)
    labels = labels_from(tmp_path, found, given)
    assert (labels.classes, labels.answer.tolist(), labels.skips) == (
        given.classes,
        [0, 0, 1, 1],
        2,
    )
    signs = Reading(positive="ja", negative="nein", skip=("weiß nicht",), ignore_case=True)
    assert labels_from(tmp_path, found, signs).label.tolist() == [1, 1, -1, -1]
    path = tmp_path / "truth.csv"
    path.write_text("task,truth\nt0,JA\nt1,ja\nt2,?\n")
    assert read_truth(str(path), one.classes, Reading(ignore_case=True)) == {
        "t0": 0,
        "t1": 0,
        "t2": 3,
    }


def test_a_column_of_measurements_is_no_column_of_labels(tmp_path: Path) -> None:
    many = [str(number / 7) for number in range(MAX_CLASSES + 1)]
    problem = problem_of(tmp_path, column(*many))
    assert f", line {MAX_CLASSES + 2}: has more than 1,000 different labels" in problem
    assert "--columns label=NAME" in problem
    assert len(labels_from(tmp_path, column(*many[:-1])).classes) == MAX_CLASSES
    assert len(labels_from(tmp_path, column(*many), Reading(classes=tuple(many))).classes) > 1000


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"positive": "yes"}, "--positive and --negative need each other"),
        ({"negative": "yes"}, "--positive and --negative need each other"),
        ({"positive": "1", "negative": "+1"}, "'1' is given twice"),
        ({"positive": "", "negative": "no"}, "a class without a name"),
        ({"classes": ("a", "b"), "positive": "a", "negative": "b"}, "--classes does not go with"),
        ({"classes": ("a",)}, "two classes or more"),
        ({"classes": ("a", "b", "a")}, "'a' is given twice"),
        ({"classes": ("a", "0"), "skip": ("0.0",)}, "'0' is a class and a skip"),
        ({"classes": ("Ja", "ja"), "ignore_case": True}, "'Ja' and 'ja' are the same with --ign"),
    ],
)
def test_a_reading_that_contradicts_itself_is_refused(
    options: dict[str, str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Reading(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "classes", "size"),
    [
        ("birds", SIGN_NAMES, 4212),
        ("rte", SIGN_NAMES, 8000),
        ("dog", ("0", "1", "2", "3"), 8070),
        ("face", ("0", "1", "2", "3"), 5242),
    ],
)
def test_the_real_crowds_are_read(name: str, classes: tuple[str, ...], size: int) -> None:
    folder = real_crowds()
    labels = read_labels(f"{folder}/{name}.labels.csv")
    assert (labels.classes, len(labels), labels.skips) == (classes, size, 0)
    truth = truth_of(labels, read_truth(f"{folder}/{name}.truth.csv", labels.classes))
    assert set(truth.tolist()) == set(range(len(classes)))
