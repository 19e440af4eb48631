"""Cheap judges first, then a person: as right as all judges, for less than half of the money."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sbic.engine.labels import Labels
from sbic.instance.tasks import StopRules
from sbic.research import escalation
from sbic.research.escalation import GOLD, PERSON, EscalationPoint, Jury, frontier
from sbic.research.outcome import save_csv, save_png

TASKS, JUDGES = 400, 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Judges of 65 to 85 %, each wrong on tasks of their own."""
    folder = tmp_path_factory.mktemp("juries")
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, TASKS)
    rows = ["task,worker,label"]
    for j, accuracy in enumerate(np.linspace(0.65, 0.85, JUDGES)):
        wrong = (truth + rng.integers(1, 3, TASKS)) % 3
        says = np.where(rng.random(TASKS) < accuracy, truth, wrong)
        rows += [f"t{i},w{j},{x}" for i, x in enumerate(says)]
    (folder / "jury.labels.csv").write_text("\n".join(rows) + "\n")
    truths = [f"t{i},{x}" for i, x in enumerate(truth)]
    (folder / "jury.truth.csv").write_text("\n".join(["task,truth", *truths]) + "\n")
    return folder


def test_a_person_is_asked_about_few_tasks_and_the_rest_costs_less(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(escalation, "TIER_LABELS", (3, 5))
    monkeypatch.setattr(escalation, "CONFIDENCES", (0.7, 0.9, 0.95))
    monkeypatch.setattr(escalation, "GOLD", 20)
    found = escalation.escalation(data, tmp_path, price=5, seed=1, jobs=1)
    points = cast(list[EscalationPoint], found.rows)
    (everybody,) = (each for each in points if each.tier_labels is None)
    assert (everybody.cost, everybody.by_person) == (JUDGES, 0.0)
    tiered = [each for each in points if each.tier_labels]
    assert len(tiered) == 6
    for each in tiered:
        judged = each.labels - each.by_person
        assert judged <= (each.tier_labels or 0) + 1e-9, "a tier gives no more than it may"
        assert each.cost == pytest.approx(judged + 5 * each.by_person)
        assert 20 / TASKS <= each.by_person < 0.6
    errors = [each.error for each in frontier(points)]
    assert errors == sorted(errors, reverse=True)
    assert "of the money" in found.text or "never as right" in found.text
    for path in (save_csv(found, tmp_path), save_png(found, tmp_path)):
        assert path.stat().st_size > 300


def test_everybody_is_asked_where_nothing_is_ever_certain_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    rows = [(f"t{i}", f"w{j}", int(rng.choice([-1, 1]))) for i in range(30) for j in range(4)]
    labels, truth = Labels.of(rows), np.arange(30) % 2
    monkeypatch.setattr(escalation, "GOLD", 5)
    jury = Jury(labels, truth, StopRules(0.999999, escalates=True), seed=2)
    jury.work()
    assert jury.given == {"w0": 30, "w1": 30, "w2": 30, "w3": 30, PERSON: 30}
    assert jury.error() == 0.0
    assert GOLD == 100
