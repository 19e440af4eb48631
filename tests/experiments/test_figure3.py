"""Figure 3: what is timed, and how it is reported. No test asserts a time."""

import csv
from pathlib import Path

import pytest

from sbic.infer.registry import ONLINE
from sbic.research.figure3 import LABELS_PER_TASK, TIMED, figure3, measure, summary
from sbic.research.outcome import Finding, save_csv, save_png
from sbic.research.running import Case, generator


def small(out: Path, runs: int = 2) -> Finding:
    return figure3(out, algorithms=TIMED, tasks=12, labels_per_worker=4, runs=runs, seed=1, jobs=1)


@pytest.mark.parametrize("name", ONLINE)
def test_each_algorithm_is_timed_beside_majority(name: str) -> None:
    case: Case = {
        "tasks": 12,
        "labels_per_worker": 4,
        "labels_per_task": 5,
        "algorithm": name,
        "run": 0,
    }
    result = measure(case, generator(1, case))
    assert set(result) == {"seconds", "majority_seconds"}
    assert min(result.values()) > 0


def test_the_ratio_is_made_within_each_run_and_then_averaged() -> None:
    cases: list[Case] = [{"algorithm": "kos", "labels_per_task": 10, "run": n} for n in (0, 1)]
    slow = {"seconds": 40.0, "majority_seconds": 4.0}  # while the machine was busy
    quick = {"seconds": 12.0, "majority_seconds": 1.0}
    (point,) = summary(cases, [slow, quick])
    assert (point.seconds, point.ratio, point.runs) == (26.0, 11.0, 2)
    assert point.ratio_sd == pytest.approx(2**0.5)
    (single,) = summary(cases[:1], [slow])
    assert (single.ratio, single.ratio_sd) == (10.0, None)


def test_the_figure_has_a_csv_a_picture_and_a_table_and_is_not_measured_twice(
    tmp_path: Path,
) -> None:
    outcome = small(tmp_path)
    content = save_csv(outcome, tmp_path).read_text()
    rows = list(csv.DictReader(content.splitlines()))
    places = {(row["algorithm"], int(row["labels_per_task"])) for row in rows}
    assert places == {(name, size) for name in TIMED for size in LABELS_PER_TASK}
    assert save_png(outcome, tmp_path).read_bytes().startswith(b"\x89PNG")
    assert "R = 10" in outcome.text
    assert "at most 1.5" in outcome.text
    assert save_csv(small(tmp_path), tmp_path).read_text() == content
