"""The error of every algorithm on all crowds of a folder."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from sbic.engine import SIGN_NAMES
from sbic.files.tables import BadFile
from sbic.infer.registry import ALGORITHMS
from sbic.research.outcome import Finding, save_csv, save_png
from sbic.research.real_crowds import CrowdCell, all_cases, as_text, crowds, error_texts

NAMES = ("majority", "em", "fast-sbic", "dawid-skene")


def write_crowd(folder: Path, name: str, classes: Sequence[str], tasks: int = 12) -> None:
    """Seven workers who answer every task, right in three of four cases."""
    rng = np.random.default_rng(len(classes))
    truth = [classes[number] for number in rng.integers(0, len(classes), tasks)]
    labels = [
        f"t{i},w{j},{y if rng.random() < 0.75 else rng.choice(classes)}\n"
        for i, y in enumerate(truth)
        for j in range(7)
    ]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.labels.csv").write_text("task,worker,label\n" + "".join(labels))
    rows = "".join(f"t{i},{y}\n" for i, y in enumerate(truth))
    (folder / f"{name}.truth.csv").write_text("task,truth\n" + rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two crowds with labels -1 and 1, of any names."""
    write_crowd(tmp_path / "data", "moths", SIGN_NAMES)
    write_crowd(tmp_path / "data", "bees", SIGN_NAMES, tasks=8)
    return tmp_path / "data"


def outcome(data: Path, out: Path, algorithms: Sequence[str] = NAMES, jobs: int = 1) -> Finding:
    return crowds(data, out, algorithms=algorithms, seed=1, jobs=jobs, shuffles=2)


def cell(crowd: str, algorithm: str, error: float, runs: int = 1) -> CrowdCell:
    return CrowdCell(crowd, 10, 5, 50, 2, algorithm, error, None, runs)


def test_the_table_has_a_row_for_each_crowd_and_a_column_for_each_algorithm(
    data: Path, tmp_path: Path
) -> None:
    lines = outcome(data, tmp_path, tuple(ALGORITHMS)).text.splitlines()
    titles = [entry.title for entry in ALGORITHMS.values()]
    header = " ".join(lines[2].split())
    assert header == " ".join(["tasks workers labels classes", *titles])
    assert lines[3].split()[:5] == ["bees", "8", "7", "56", "2"]
    assert lines[4].split()[:5] == ["moths", "12", "7", "84", "2"]
    assert len(lines[5].split()) == 1 + len(ALGORITHMS)


def test_crowds_of_other_classes_are_for_the_algorithms_that_take_them(
    data: Path, tmp_path: Path
) -> None:
    write_crowd(data, "ants", ("red", "black", "wood"))
    result = outcome(data, tmp_path)
    ants = next(line for line in result.text.splitlines() if line.startswith("ants"))
    assert [text == "–" for text in ants.split()[5:]] == [False, True, True, False]
    assert ants.split()[4] == "3"
    assert "– needs the classes -1 and 1: em, fast-sbic\n" in result.text
    assert "mean: of the crowds that every algorithm fits: bees, moths\n" in result.text
    assert [row[5] for row in result.rows if row[0] == "ants"] == ["majority", "dawid-skene"]
    assert save_png(result, tmp_path).exists()


def test_a_crowd_that_no_algorithm_takes_is_told(data: Path, tmp_path: Path) -> None:
    write_crowd(data, "ants", ("red", "black", "wood"))
    text = outcome(data, tmp_path, ["em", "te"]).text
    assert text.endswith("Left out, since no algorithm here fits their classes: ants")
    for path in (*data.glob("bees.*"), *data.glob("moths.*")):
        path.unlink()
    with pytest.raises(BadFile, match="has no crowd with the classes -1 and 1; no others fit em"):
        outcome(data, tmp_path, ["em", "te"])


@pytest.mark.figures
def test_the_csv_has_every_error_and_does_not_depend_on_the_jobs(
    data: Path, tmp_path: Path
) -> None:
    texts = []
    for jobs in (1, 2):
        out = tmp_path / f"out{jobs}"
        texts.append(save_csv(outcome(data, out, jobs=jobs), out).read_text())
    assert texts[0] == texts[1]
    rows = list(csv.DictReader(texts[0].splitlines()))
    assert [row["algorithm"] for row in rows] == [*NAMES, *NAMES]
    for row in rows:
        assert (row["runs"] == "2") == ALGORITHMS[row["algorithm"]].is_random
        assert (row["standard_error"] == "") == (row["runs"] == "1")


def test_what_is_in_the_journal_is_not_run_again(data: Path, tmp_path: Path) -> None:
    outcome(data, tmp_path, ["majority"])
    journal = tmp_path / "crowds.jsonl"
    first = journal.read_text()
    outcome(data, tmp_path, ["majority", "em"])
    both = journal.read_text()
    assert both.startswith(first)
    assert len(both.splitlines()) == 2 * len(first.splitlines())
    outcome(data, tmp_path, ["em", "majority"])
    assert journal.read_text() == both


def test_a_row_marks_its_lowest_errors_and_has_a_dash_where_an_algorithm_does_not_fit() -> None:
    texts = error_texts(NAMES, {"majority": 0.25, "em": 0.125, "dawid-skene": 0.125})
    assert texts == ["0.2500 ", "0.1250*", "– ", "0.1250*"]


def test_the_mean_is_over_the_crowds_that_every_algorithm_takes() -> None:
    names = ("em", "dawid-skene")
    cells = [cell("a", "em", 0.2), cell("a", "dawid-skene", 0.1)]
    cells += [cell("b", "em", 0.3), cell("b", "dawid-skene", 0.4), cell("c", "dawid-skene", 0.9)]
    text = as_text(names, cells)
    (mean,) = (line.split() for line in text.splitlines() if line.startswith("mean  "))
    assert mean == ["mean", f"{fmean([0.2, 0.3]):.4f}*", f"{fmean([0.1, 0.4]):.4f}*"]
    assert "mean: of the crowds that every algorithm fits: a, b\n" in f"{text}\n"
    assert "– needs the classes -1 and 1: em\n" in text
    none = as_text(names, [cell("c", "dawid-skene", 0.9)])
    assert none.endswith("There is no crowd that every algorithm fits, and so no mean.")


def test_the_notes_say_over_how_many_orders_the_means_are() -> None:
    cells = [cell("a", "em", 0.2), cell("a", "mc", 0.1, runs=7)]
    assert as_text(("em", "mc"), cells).endswith("Over 7 random orders and seeds: mc")
    assert "random orders" not in as_text(("em",), cells[:1])


def test_a_changed_file_is_run_anew(data: Path) -> None:
    before = all_cases(data, NAMES, 1)
    path = data / "bees.labels.csv"
    path.write_text(path.read_text() + "t0,newcomer,1\n")
    after = all_cases(data, NAMES, 1)
    assert {str(case["set"]) for case in after if case not in before} == {"bees"}


def test_the_picture_is_a_png(data: Path, tmp_path: Path) -> None:
    assert save_png(outcome(data, tmp_path), tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_crowd_without_truth_is_refused_before_the_work_begins(
    data: Path, tmp_path: Path
) -> None:
    (data / "moths.truth.csv").unlink()
    with pytest.raises(BadFile, match=r"moths\.truth\.csv: cannot be read"):
        outcome(data, tmp_path / "out")
    (data / "moths.truth.csv").write_text("task,truth\nother,1\n")
    with pytest.raises(BadFile, match=r"moths\.truth\.csv: has the truth of none of the tasks"):
        outcome(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_crowds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"has no NAME\.labels\.csv"):
        outcome(tmp_path, tmp_path)
