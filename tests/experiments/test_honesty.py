"""What is published is as sure as it is right, whether workers err together or not."""

from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pytest

from sbic.engine.drift import CALM
from sbic.engine.engine import Engine
from sbic.engine.labels import Floats, Ints
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


# A judge who is replaced by another is found soon, and alarms are seldom false.
#
# A crowd answers while the engine follows as an instance does: labels of many tasks come mixed, and
# due tasks are refreshed in between. Half-way, the labels of one worker are given by another.


MIXED = 30  # tasks whose labels come at the same time, about
AT_ONCE = 100  # labels between two refreshes
REPLACED = 0  # the worker


class ReplacedCrowd(NamedTuple):
    """Labels in order; from `since` on another answers in the name of the worker REPLACED."""

    tasks: Ints
    workers: Ints
    answers: Ints
    classes: int
    since: int


class Alarms(NamedTuple):
    """Labels of the replaced worker until the alarm, or None; false alarms, and out of how many."""

    delay: int | None
    false_alarms: int
    labels: int


def crowd(
    classes: int,
    rng: np.random.Generator,
    *,
    before: float = 0.75,
    after: float = 0.35,
    tasks: int = 1500,
    workers: int = 12,
    labels_per_task: int = 8,
) -> ReplacedCrowd:
    """Workers who know the answer with a probability of Beta(4, 3), and else follow a habit.

    The worker REPLACED knows it with the probability `before`, and who comes then with `after`.
    """
    knows = rng.beta(4, 3, workers + 1)
    knows[[REPLACED, workers]] = before, after
    habits = np.cumsum(rng.dirichlet(np.full(classes, 3.0), workers + 1), axis=1)
    truth = rng.integers(0, classes, tasks)
    i = np.repeat(np.arange(tasks), labels_per_task)
    j = np.concatenate([rng.choice(workers, labels_per_task, replace=False) for _ in range(tasks)])
    order = np.argsort(np.arange(len(i)) + rng.normal(0, MIXED * labels_per_task, len(i)))
    i, j = np.ascontiguousarray(i[order]), np.ascontiguousarray(j[order])
    who = j.copy()
    since = len(i) // 2
    who[since:][j[since:] == REPLACED] = workers
    guesses = (habits[who] < rng.random(len(i))[:, None]).sum(axis=1)
    answers = np.where(rng.random(len(i)) < knows[who], truth[i], guesses.clip(0, classes - 1))
    return ReplacedCrowd(i, j, answers, classes, since)


def watched(crowd: ReplacedCrowd) -> Alarms:
    """Let an engine take the labels; an alarm of any other worker, or too early, is false."""
    engine = Engine("settled", classes=crowd.classes)
    engine.make_room(int(crowd.tasks.max()) + 1, int(crowd.workers.max()) + 1)
    delay, false_alarms = None, 0
    for first in range(0, len(crowd.tasks), AT_ONCE):
        for n in range(first, min(first + AT_ONCE, len(crowd.tasks))):
            j = int(crowd.workers[n])
            one = slice(n, n + 1)
            engine.set_drifting(j, 0)  # every alarm counts, also one soon after another
            engine.take(crowd.tasks[one], crowd.workers[one], crowd.answers[one], times=[n + 1])
            if engine.drifting([j])[0]:
                if j == REPLACED and n >= crowd.since:
                    given = int((crowd.workers[crowd.since : n + 1] == REPLACED).sum())
                    delay = given if delay is None else delay
                else:
                    false_alarms += 1
        engine.refresh_due(20 * AT_ONCE)
    replaced = int((crowd.workers[crowd.since :] == REPLACED).sum())
    return Alarms(delay, false_alarms, len(crowd.tasks) - replaced)


def measured(classes: int, seeds: int, after: float = 0.35) -> tuple[Floats, float]:
    """The delay in each of several crowds, infinite if not found; false alarms per 10,000."""
    found = [
        watched(crowd(classes, np.random.default_rng(seed), after=after)) for seed in range(seeds)
    ]
    delays = [np.inf if one.delay is None else float(one.delay) for one in found]
    labels = sum(one.labels for one in found)
    return np.array(delays), 10_000 * sum(one.false_alarms for one in found) / labels


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
