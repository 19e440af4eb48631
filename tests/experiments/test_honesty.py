"""Where workers err together, the honest model expects the errors that settled does not."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sbic.research.honesty import GOLD, MODELS, Cell, calibration_error, honesty
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


def test_with_gold_as_many_are_wrong_as_expected_and_without_it_settled_is_far_off(
    data: Path, tmp_path: Path
) -> None:
    outcome = honesty(data, tmp_path, draws=2, seed=1, jobs=1)
    rows = cast(list[Cell], outcome.rows)
    cells = {(cell.model, cell.gold): cell for cell in rows}
    assert cells.keys() == {(model, gold) for model in MODELS for gold in GOLD if gold < 200}
    assert cells["settled", 0].expected < 0.1 * cells["settled", 0].error
    told = cells["honest", 100]
    assert told.expected == pytest.approx(told.error, rel=0.25)
    assert told.ece < 0.08
    assert told.votes < 2 < cells["settled", 0].votes
    assert save_csv(outcome, tmp_path).read_text().startswith("crowd,model,gold,error,expected,")
    pytest.importorskip("matplotlib")
    assert save_png(outcome, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_what_is_as_sure_as_it_is_right_has_no_calibration_error() -> None:
    confidence, is_right = np.full(10, 0.7), np.array([1.0] * 7 + [0.0] * 3)
    assert calibration_error(confidence, is_right) == pytest.approx(0)
    assert calibration_error(np.full(10, 0.95), is_right) == pytest.approx(0.25)
