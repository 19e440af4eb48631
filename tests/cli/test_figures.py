"""`sbic experiment figure1` and `figure3` as they are called."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.figures

SMALL = ("--tasks", "12", "--labels-per-worker", "4", "--runs", "1", "--jobs", "1")


def sbic(*arguments: str) -> tuple[int, str, str]:
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
    status, text, notes = sbic(*arguments, *SMALL, *chosen, "--out", str(tmp_path))
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
    status, text, notes = sbic(*arguments, "--out", str(tmp_path / "out"))
    assert (status, text) == (2, "")
    assert message in notes
    assert len(notes.splitlines()) == 1
    assert not (tmp_path / "out").exists()
