"""A judge who is replaced by another is found soon, and alarms are seldom false."""

import numpy as np
import pytest

from sbic.engine.drift import CALM
from sbic.engine.engine import Engine
from sbic.research.drift import REPLACED, crowd, measured, watched


@pytest.mark.parametrize(("classes", "most"), [(2, 130), (4, 80)])
def test_a_judge_replaced_by_a_worse_one_is_found_and_few_alarms_are_false(
    classes: int, most: float
) -> None:
    delays, false_alarms = measured(classes, seeds=8)
    assert np.median(delays) <= most
    assert false_alarms <= 3


def test_a_judge_replaced_by_a_better_one_is_found_too() -> None:
    found = [
        watched(crowd(3, np.random.default_rng(seed), before=0.2, after=0.85)) for seed in range(3)
    ]
    assert sum(one.delay is not None and one.delay < 200 for one in found) >= 2


def test_the_alarm_says_since_when_and_ends_when_the_worker_is_calm_again() -> None:
    rng = np.random.default_rng(6)
    engine, known, workers = Engine("settled", classes=3), 0.9, 9
    seen: list[int] = []
    for i in range(3 * CALM):
        truth = int(rng.integers(3))
        for j in rng.permutation(workers).tolist():
            knows = known if j != REPLACED or i < 400 else 0.1
            x = truth if rng.random() < knows else int(rng.integers(3))
            engine.take([i], [j], [x], times=[1000 + i])
        seen.append(int(engine.drifting([REPLACED])[0]))
        if i % 20 == 0:
            engine.refresh_due(2000)
    first = next(i for i, since in enumerate(seen) if since)
    assert 400 <= first < 440
    assert 1390 <= seen[first] <= 1000 + first
    assert set(seen[:first]) == {0}
    assert set(seen[first : first + CALM - 1]) == {seen[first]}
    # the counts follow slowly: another alarm prolongs it
    assert 0 in seen[first + CALM :]


def test_labels_without_times_are_not_judged() -> None:
    engine = Engine("settled")
    for i in range(300):
        engine.take([i, i, i], [0, 1, 2], [0, int(i > 150), 0])
    assert not engine.drifting([0, 1, 2]).any()
    assert not engine.state.drift.any()
