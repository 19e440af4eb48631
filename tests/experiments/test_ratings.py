"""The experiment on crowds that grade."""

from pathlib import Path

import numpy as np
import pytest

from sbic.files.tables import BadFile
from sbic.research.ratings import MODELS, MOST, ORDERED, SETTLED, few_labels, ratings, simulated


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ratings")
    labels, truth = simulated(np.random.default_rng(1), tasks=200, workers=20, labels_per_task=6)
    rows = zip(labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True)
    lines = ["task,worker,label", *(f"t{i},w{j},{x + 1}" for i, j, x in rows)]
    (folder / "pages.labels.csv").write_text("\n".join(lines))
    lines = ["task,truth", *(f"t{i},{x + 1}" for i, x in enumerate(truth.tolist()))]
    (folder / "pages.truth.csv").write_text("\n".join(lines))
    return folder


def test_the_table_has_each_model_with_all_labels_and_with_few(data: Path, tmp_path: Path) -> None:
    found = ratings(data, tmp_path, draws=2, seed=0, jobs=1)
    assert len(found.rows) == len(MODELS) * len(MOST)
    errors = {(row[1], row[2]): float(str(row[3])) for row in found.rows}
    assert errors[0, ORDERED] < errors[0, SETTLED]
    assert errors[1, "majority"] > errors[4, "majority"]
    assert ratings(data, tmp_path, draws=2, seed=0, jobs=1).rows == found.rows  # of the journal


def test_labels_that_are_no_grades_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pets.labels.csv").write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
    (tmp_path / "pets.truth.csv").write_text("task,truth\nt1,cat\n")
    with pytest.raises(BadFile, match="labels that are no grades: cat, dog"):
        ratings(tmp_path, tmp_path, draws=1, seed=0, jobs=1)


def test_few_labels_are_at_most_so_many_of_each_task() -> None:
    crowd = simulated(np.random.default_rng(2), tasks=50, workers=20, labels_per_task=6)
    labels, truth = few_labels(*crowd, 2, np.random.default_rng(0))
    assert np.bincount(labels.task).tolist() == [2] * 50
    assert truth is crowd.truth
