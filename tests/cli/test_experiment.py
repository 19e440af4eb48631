"""`sbic experiment` as it is called."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.figures
WITHOUT_RESEARCH_EXTRA = (
    "import sys\n"
    "sys.modules['numba'] = sys.modules['matplotlib'] = None\n"
    "from sbic.commands.main import main\n"
    "main()\n"
)


def sbic(*arguments: str, start: tuple[str, ...] = ("-m", "sbic")) -> tuple[int, str, str]:
    ended = subprocess.run([sys.executable, *start, *arguments], capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    labels = [f"t{i},w{j},{-1 if i % (j + 2) else 1}\n" for i in range(8) for j in range(5)]
    (folder / "rte.labels.csv").write_text("task,worker,label\n" + "".join(labels))
    (folder / "rte.truth.csv").write_text("task,truth\nt0,1\nt1,-1\nt2,-1\nt3,1\n")
    return folder


def test_table2_prints_the_table_and_saves_csv_png_and_the_results_so_far(
    data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    arguments = ("experiment", "table2", "--data", str(data), "--out", str(out), "--shuffles", "2")
    status, text, notes = sbic(*arguments, "--jobs", "2", "--seed", "3")
    assert status == 0, notes
    assert text.startswith("Table 2")
    assert notes == f"\nSaved {out / 'table2.csv'} and {out / 'table2.png'}\n"
    assert sorted(path.name for path in out.iterdir()) == [
        "table2.csv",
        "table2.jsonl",
        "table2.png",
    ]
    journal = (out / "table2.jsonl").read_text()
    assert sbic(*arguments, "--jobs", "1", "--seed", "3")[1] == text
    assert (out / "table2.jsonl").read_text() == journal, "nothing was run a second time"


def test_crowds_prints_the_table_and_saves_csv_png_and_the_results_so_far(
    data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    arguments = ("experiment", "crowds", "--data", str(data), "--out", str(out), "--shuffles", "2")
    status, text, notes = sbic(*arguments, "--algorithms", "te, fast-sbic", "--jobs", "1")
    assert status == 0, notes
    assert text.startswith("The share of wrong predictions")
    assert text.index("TE") < text.index("Fast SBIC")
    assert "MAJ" not in text
    assert notes == f"\nSaved {out / 'crowds.csv'} and {out / 'crowds.png'}\n"
    assert sorted(path.name for path in out.iterdir()) == [
        "crowds.csv",
        "crowds.jsonl",
        "crowds.png",
    ]


@pytest.mark.parametrize(
    ("removed", "arguments", "message"),
    [
        ("rte.truth.csv", (), "rte.truth.csv: cannot be read"),
        ("rte.labels.csv", (), "data: has no NAME.labels.csv"),
        (None, ("--algorithms", "em,best"), "there is no algorithm 'best' here; choose from maj"),
        (None, ("--shuffles", "0"), "0 is not in the range x>=1"),
    ],
)
def test_crowds_that_cannot_be_compared_are_told_in_one_line(
    data: Path, tmp_path: Path, removed: str | None, arguments: tuple[str, ...], message: str
) -> None:
    if removed:
        (data / removed).unlink()
    out = tmp_path / "results"
    status, text, notes = sbic(
        "experiment", "crowds", "--data", str(data), "--out", str(out), *arguments
    )
    assert (status, text) == (2, "")
    assert message in notes
    assert len(notes.splitlines()) == 1
    assert not out.exists()


def test_without_the_research_extra_all_but_the_picture_is_made(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    status, text, notes = sbic(
        *("experiment", "table2", "--data", str(data), "--out", str(out)),
        *("--shuffles", "1", "--jobs", "1"),
        start=("-c", WITHOUT_RESEARCH_EXTRA),
    )
    assert status == 0, notes
    assert text.startswith("Table 2")
    assert notes.splitlines() == [
        "numba is not installed, so SBIC is slow: pip install numba",
        f"no {out / 'table2.png'}: matplotlib is not installed; pip install 'sbic[research]'",
        "",
        f"Saved {out / 'table2.csv'}",
    ]
    assert (out / "table2.csv").exists()


def test_a_bad_file_among_the_data_is_told_with_its_line(data: Path, tmp_path: Path) -> None:
    (data / "rte.truth.csv").write_text("task,truth\nt0,1\nt1,5\n")
    status, text, notes = sbic("experiment", "table2", "--data", str(data), "--out", str(tmp_path))
    assert (status, text) == (2, "")
    assert notes.startswith(f"sbic: {data / 'rte.truth.csv'}, line 3: a truth is")
    assert len(notes.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("table2",), ("stopping", "--runs", "1")])
def test_what_needs_the_classes_of_the_paper_refuses_others_in_one_line(
    data: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (data / "rte.labels.csv").write_text("task,worker,label\nt0,w0,cat\nt0,w1,dog\n")
    (data / "rte.truth.csv").write_text("task,truth\nt0,cat\n")
    status, text, notes = sbic(
        "experiment", *arguments, "--data", str(data), "--out", str(tmp_path)
    )
    assert (status, text) == (2, "")
    assert notes == f"sbic: {data / 'rte.labels.csv'}: has classes other than -1 and 1\n"


# `sbic experiment figure1` and `figure3` as they are called.


SMALL = ("--tasks", "12", "--labels-per-worker", "4", "--runs", "1", "--jobs", "1")


def sbic_figures(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "sbic", "experiment", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("figure1", "--policy", "uncertainty", "--max-labels", "5"), "figure1-uncertainty-blocks"),
        (("figure3",), "figure3"),
    ],
)
def test_a_figure_is_printed_and_saved(
    arguments: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    chosen = ("--algorithms", "fast-sbic, majority")
    status, text, notes = sbic_figures(*arguments, *SMALL, *chosen, "--out", str(tmp_path))
    assert status == 0, notes
    assert text.startswith(f"Figure {name[6]}")
    assert text.index("Fast SBIC ") < text.index("\nMAJ ")
    assert "AMF " not in text
    saved = [tmp_path / f"{name}.csv", tmp_path / f"{name}.png"]
    assert notes == f"\nSaved {saved[0]} and {saved[1]}\n"
    assert all(path.exists() for path in saved)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("figure1",), "Missing option '--policy'"),
        (("figure1", "--policy", "random"), "'random' is not one of 'uniform', 'uncertainty'"),
        (
            ("figure1", "--policy", "uniform", "--algorithms", "majority,te"),
            "there is no algorithm 'te' here; choose from majority, em, amf, kos, mc, fast-sbic",
        ),
        (
            ("figure3", "--tasks", "5", "--labels-per-worker", "6"),
            "--labels-per-worker 6 is more than --tasks 5",
        ),
        (("figure1", "--policy", "uniform", "--runs", "0"), "0 is not in the range x>=1"),
    ],
)
def test_bad_usage_is_one_line_that_says_what_to_do(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    status, text, notes = sbic_figures(*arguments, "--out", str(tmp_path / "out"))
    assert (status, text) == (2, "")
    assert message in notes
    assert len(notes.splitlines()) == 1
    assert not (tmp_path / "out").exists()
