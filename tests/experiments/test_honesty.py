"""What is published is as sure as it is right, whether workers err together or not."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sbic.infer.agreement import calibration_error
from sbic.research.honesty import (
    COPIES,
    DAWID_SKENE,
    GOLD,
    SETTLED,
    WITH_COPIES,
    HonestyCell,
    honesty,
)
from sbic.research.independent import (
    COMPARED,
    KINDS,
    WORSE,
    CrowdMeans,
    Dimensions,
    independent,
    measure,
)
from sbic.research.outcome import save_csv, save_png

TASKS, JUDGES = 400, 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jury whose members all repeat the common opinion in nine of ten answers."""
    folder = tmp_path_factory.mktemp("juries")
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, TASKS)
    opinion = np.where(rng.random(TASKS) < 0.75, truth, 1 - truth)
    lines = ["task,worker,label"]
    for i in range(TASKS):
        for j in range(JUDGES):
            x = opinion[i] if rng.random() < 0.9 else 1 - opinion[i]
            lines.append(f"t{i},w{j},{2 * x - 1}")
    (folder / "jury.labels.csv").write_text("\n".join(lines) + "\n")
    rows = [f"t{i},{2 * y - 1}" for i, y in enumerate(truth)]
    (folder / "jury.truth.csv").write_text("\n".join(["task,truth", *rows]) + "\n")
    return folder


def test_with_gold_as_many_are_wrong_as_expected_and_dawid_skene_is_far_off(
    data: Path, tmp_path: Path
) -> None:
    outcome = honesty(data, tmp_path, draws=2, seed=1, jobs=1)
    rows = cast(list[HonestyCell], outcome.rows)
    cells = {(cell.crowd, cell.model, cell.gold): cell for cell in rows}
    assert {key[2] for key in cells if key[1] == SETTLED} == {gold for gold in GOLD if gold < 200}
    others = cells["jury", DAWID_SKENE, 0]
    assert others.expected < 0.1 * others.error
    assert others.wrong_95 > 0.15
    told = cells["jury", SETTLED, 100]
    assert told.expected == pytest.approx(told.error, rel=0.25)
    assert told.ece < 0.08
    assert told.votes < 2 < others.votes
    alone, copied = cells["jury", SETTLED, 0], cells[f"jury{WITH_COPIES}", SETTLED, 0]
    assert copied.error == pytest.approx(alone.error, abs=0.01)
    assert copied.votes == pytest.approx(alone.votes, abs=0.1)
    assert cells[f"jury{WITH_COPIES}", DAWID_SKENE, 0].votes == JUDGES + COPIES
    assert save_csv(outcome, tmp_path).read_text().startswith("crowd,model,gold,error,expected,")
    pytest.importorskip("matplotlib")
    assert save_png(outcome, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_what_is_as_sure_as_it_is_right_has_no_calibration_error() -> None:
    confidence, is_right = np.full(10, 0.7), np.array([1.0] * 7 + [0.0] * 3)
    assert calibration_error(confidence, is_right) == pytest.approx(0)
    assert calibration_error(np.full(10, 0.95), is_right) == pytest.approx(0.25)


@pytest.mark.parametrize("name", ["2 classes", "4 classes", "10 % adversaries", "80/20"])
def test_of_independent_workers_what_is_published_is_as_sure_as_it_is_right(name: str) -> None:
    case = {"crowd": name, **Dimensions(1_000, 12, 60)._asdict(), "run": 0}
    found = [measure(case, np.random.default_rng(seed)) for seed in range(3)]
    assert np.mean([each["ece"] for each in found]) < (0.08 if name == "80/20" else 0.05)
    assert np.mean([each["error"] for each in found]) < np.mean([e["majority"] for e in found])


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("name", ["all right in 55 %", "30 % spammers", "80/20"])
def test_while_little_is_known_it_is_not_worse_than_the_majority(name: str, labels: int) -> None:
    case = {"crowd": name, **Dimensions(400, labels, 20)._asdict(), "run": 0}
    found = [measure(case, np.random.default_rng(seed)) for seed in range(8)]
    for when in "live", "error":
        assert np.mean([each[when] - each["majority"] for each in found]) < WORSE


@pytest.mark.long
def test_no_kind_of_crowd_is_worse_off_than_with_the_majority_at_1_to_12_labels_per_task(
    tmp_path: Path,
) -> None:
    outcome = independent(tmp_path, seeds=8, seed=0, jobs=2)
    rows = {(row[0], Dimensions(*row[1:4])): row for row in cast(list[CrowdMeans], outcome.rows)}
    assert {name for name, _ in COMPARED} == KINDS.keys() - {"70/15/10/5"}
    for place in COMPARED:
        row = rows[place]
        assert max(row.live, row.error) - row.majority < WORSE, place
    balanced = [row for row in rows.values() if row.tasks == 1_000 and "/" not in row.crowd]
    assert len(balanced) == 12
    for row in balanced:
        assert row.ece < 0.05, row
    assert "published" in outcome.text
    pytest.importorskip("matplotlib")
    assert save_png(outcome, tmp_path).read_bytes().startswith(b"\x89PNG")
