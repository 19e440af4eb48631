"""Figure 1: the machinery on small crowds, the numbers on large ones."""

import csv
from functools import cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from sbic.engine.labels import standard_error
from sbic.infer.intervals import agresti_coull
from sbic.infer.registry import ONLINE
from sbic.research.figure1 import (
    Figure1Point,
    Setting,
    bound,
    cases_of,
    figure1,
    measure,
    measured_at,
    reference,
)
from sbic.research.outcome import Finding, save_csv, save_png
from sbic.research.running import generator
from sbic.research.simulated import ARRIVALS

POLICIES = ("uniform", "uncertainty")
SETTINGS = [Setting(policy, arrival, 20, 4, 12) for policy in POLICIES for arrival in ARRIVALS]


def small(setting: Setting, out: Path, runs: int = 2, jobs: int = 1) -> Finding:
    return figure1(setting, out, algorithms=ONLINE, runs=runs, seed=1, jobs=jobs)


@cache
def measured(setting: Setting) -> Finding:
    """The figure on a small crowd, measured once."""
    with TemporaryDirectory() as folder:
        return small(setting, Path(folder))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_algorithm_has_its_points_in_the_csv_and_a_line_in_the_table(
    setting: Setting, tmp_path: Path
) -> None:
    outcome = measured(setting)
    path = save_csv(outcome, tmp_path)
    assert path.name == f"figure1-{setting.policy}-{setting.arrival}.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for name in ONLINE:
        own = [row for row in rows if row["algorithm"] == name]
        assert [int(row["labels_per_task"]) for row in own] == measured_at(setting, name)
        for row in own:
            assert 0 <= float(row["low"]) < float(row["high"]) <= 1
            assert row["runs"] == "2"
    text = outcome.text
    for title in ("MAJ", "EM", "AMF", "KOS", "MC", "Fast SBIC", "Sorted SBIC"):
        assert sum(line.startswith(f"{title} ") for line in text.splitlines()) == 1
    assert f"--arrival {setting.arrival}" in text
    assert "the paper has this figure only as a plot" in text.lower()


def test_the_reference_stands_under_our_numbers_where_there_is_one(tmp_path: Path) -> None:
    setting = Setting("uniform", "blocks", 1000, 10, 10)
    text = figure1(setting, tmp_path, algorithms=["majority", "kos"], runs=1, seed=1, jobs=1).text
    given = [line.split() for line in text.splitlines() if line.split()[:1] == ["reference"]]
    assert given == [["reference", "0.3289"], ["reference", "0.2300"]]
    assert reference(setting._replace(tasks=500), "kos", 10) is None
    assert reference(setting._replace(tasks=500), "majority", 11) is not None
    assert reference(setting._replace(policy="uncertainty"), "sorted-sbic", 80) is None


@pytest.mark.figures
@pytest.mark.parametrize("setting", SETTINGS[1:3])
def test_the_same_seed_gives_the_same_csv_whatever_the_jobs(
    setting: Setting, tmp_path: Path
) -> None:
    assert small(setting, tmp_path, jobs=2).rows == measured(setting).rows


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_run_that_was_stopped_goes_on_to_the_same_csv(setting: Setting, tmp_path: Path) -> None:
    whole = save_csv(small(setting, tmp_path / "whole"), tmp_path / "whole").read_text()
    journal = (tmp_path / "whole" / "figure1.jsonl").read_bytes()
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    half = journal[: len(journal) // 2]
    (stopped / "figure1.jsonl").write_bytes(half)
    assert save_csv(small(setting, stopped), stopped).read_text() == whole
    assert (stopped / "figure1.jsonl").read_bytes().startswith(half)


def test_a_crowd_in_blocks_is_measured_on_its_way_and_one_in_turns_is_not() -> None:
    blocks, turns = Setting(*SETTINGS[2]), Setting(*SETTINGS[3])
    assert [case["labels_per_task"] for case in cases_of(blocks, "fast-sbic", 2)] == [12, 12]
    assert [case["labels_per_task"] for case in cases_of(turns, "fast-sbic", 1)] == [
        1,
        2,
        5,
        10,
        12,
    ]
    (case,) = cases_of(blocks, "fast-sbic", 1)
    result = measure(case, generator(1, case))
    assert list(map(int, result)) == list(range(1, 13))


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_picture_is_a_png(setting: Setting, tmp_path: Path) -> None:
    assert save_png(measured(setting), tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_bound_goes_through_the_last_point_that_is_sure() -> None:
    setting = Setting("uniform", "blocks", 1000, 10, 40)
    points = [
        Figure1Point("sorted-sbic", 10, 0.25, 0, 1, None, 1),
        Figure1Point("sorted-sbic", 20, 0.12, 0, 1, None, 1),
        Figure1Point("sorted-sbic", 40, 0.003, 0, 1, None, 1),  # 3 wrong ones
    ]
    sizes, errors = bound(setting, "sorted-sbic", points)
    assert errors[sizes.index(20)] == pytest.approx(0.12)
    assert errors[sizes.index(21)] / errors[sizes.index(20)] == pytest.approx(0.9527049329)
    assert bound(setting, "majority", points) == ([], [])


def test_the_interval_holds_the_true_share_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    for share in (0.01, 0.3):
        drawn = rng.binomial(1000, share, 2000) / 1000
        intervals = [agresti_coull(each, 1000, confidence=0.95) for each in drawn]
        held = fmean(low <= share <= high for low, high in intervals)
        assert 0.93 < held < 0.99
    assert agresti_coull(0.0, 100)[0] == 0


# Labels per task and error of 1000 tasks, 10 labels per worker; few runs, so only the first sizes.
IN_MOMENTS = 20  # labels per task, at the most
SETTLED_IN_MOMENTS = 10
EXPECTED: list[tuple[str, str, str, int, float]] = [
    ("uniform", "blocks", "majority", 20, 0.2630),
    ("uniform", "blocks", "fast-sbic", 20, 0.206),
    ("uniform", "blocks", "sorted-sbic", 20, 0.125),
    ("uniform", "blocks", "amf", 20, 0.104),
    ("uniform", "blocks", "em", 20, 0.108),
    ("uniform", "blocks", "kos", 20, 0.111),
    ("uniform", "blocks", "mc", 10, 0.229),
    ("uniform", "blocks", "settled", 10, 0.2214),
    ("uniform", "blocks", "settled", 20, 0.1015),
    ("uniform", "blocks", "settled", 40, 0.0295),
    ("uniform", "blocks", "settled", 80, 0.0028),
    ("uniform", "blocks", "settled-live", 10, 0.2485),
    ("uniform", "blocks", "settled-live", 20, 0.1135),
    ("uniform", "blocks", "settled-live", 40, 0.0309),
    ("uniform", "blocks", "settled-live", 80, 0.0030),
    ("uncertainty", "blocks", "majority", 20, 0.204),
    ("uncertainty", "blocks", "fast-sbic", 20, 0.187),
    ("uncertainty", "blocks", "sorted-sbic", 20, 0.104),
    ("uncertainty", "interleaved", "majority", 20, 0.210),
    ("uncertainty", "interleaved", "fast-sbic", 20, 0.123),
    ("uncertainty", "interleaved", "sorted-sbic", 20, 0.055),
    ("uncertainty", "interleaved", "settled-live", 10, 0.210),
    ("uncertainty", "interleaved", "settled-live", 20, 0.052),
    ("uncertainty", "interleaved", "settled-live", 40, 0.0007),
]


def mark_of(algorithm: str, size: int) -> pytest.MarkDecorator:
    most = SETTLED_IN_MOMENTS if algorithm.startswith("settled") else IN_MOMENTS
    return pytest.mark.long if size > most else pytest.mark.figures


@pytest.mark.parametrize(
    ("policy", "arrival", "algorithm", "size", "expected"),
    [pytest.param(*case, marks=mark_of(case[2], case[3])) for case in EXPECTED],
)
def test_the_known_errors_come_out(
    policy: str, arrival: str, algorithm: str, size: int, expected: float
) -> None:
    setting = Setting(policy, arrival, 1000, 10, size)
    runs = 4 if algorithm == "mc" else 24 if (algorithm, size) == ("settled-live", 20) else 8
    cases = [case for case in cases_of(setting, algorithm, runs) if case["labels_per_task"] == size]
    errors = [measure(case, generator(0, case))[str(size)] for case in cases]
    spread = standard_error(errors)
    assert spread is not None
    assert spread < 0.015
    assert fmean(errors) == pytest.approx(expected, abs=4 * spread + 0.001)
