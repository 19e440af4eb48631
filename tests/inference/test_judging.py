"""A report can be made of any labels, and is bounded whatever their number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from orjson import dumps, loads

from sbic.engine.labels import Labels
from sbic.infer.advice import as_json_object, findings, next_steps
from sbic.infer.evidence import UNKNOWN, settled_evidence
from sbic.infer.judging import MOST_JUDGES, report_on
from tests.inference.crowds import crowd_of_classes
from tests.test_schemas import schema

VALID = Draft202012Validator(schema("report"))


@st.composite
def juries(draw: st.DrawFn) -> tuple[Labels, list[int], list[int]]:
    """Labels of a few judges, with the known truth of some tasks, and skips."""
    classes = tuple("abc"[: draw(st.integers(2, 3))])
    label = st.tuples(
        st.integers(0, 7), st.integers(0, 3), st.none() | st.integers(0, len(classes) - 1)
    )
    rows = draw(st.lists(label, max_size=40))
    named = [(f"t{task}", f"w{worker}", answer) for task, worker, answer in rows]
    labels = Labels.of_answers(named, classes)
    golds = draw(
        st.lists(
            st.integers(UNKNOWN, len(classes) - 1), min_size=labels.tasks, max_size=labels.tasks
        )
    )
    skips = draw(st.lists(st.integers(0, 9), min_size=labels.workers, max_size=labels.workers))
    return labels, golds, skips


@settings(max_examples=100, deadline=None)
@given(juries(), st.booleans())
def test_any_labels_make_a_report_that_is_as_the_schema_says(
    jury: tuple[Labels, list[int], list[int]], gold_only: bool
) -> None:
    labels, golds, skips = jury
    evidence = settled_evidence(labels, np.array(golds, np.int64), skips)
    report = report_on(evidence, gold_only=gold_only)
    found = loads(dumps(as_json_object(report, "x")))
    VALID.validate(found)
    assert found["labels"] == len(labels)
    assert findings(report)
    for judge in report.judges:
        if judge.gold:
            low, high = judge.gold.interval
            assert 0 <= low <= judge.gold.accuracy <= high <= 1
            assert judge.gold.base_rate > 0
    for pair in report.pairs:
        for errors in (pair.gold, pair.posterior):
            assert errors is None or -1e-9 <= errors.same <= errors.wrong + 1e-9
    if gold_only:
        assert all(judge.posterior is None for judge in report.judges)
    if report.next.gold:
        assert set(report.next.tasks) <= set(labels.task_names)
        assert next_steps(report)


def test_judges_and_classes_are_bounded() -> None:
    labels, truth = crowd_of_classes(25, tasks=40, workers=80, labels_per_task=60, seed=1)
    report = report_on(settled_evidence(labels, truth, [0] * 80))
    assert (len(report.judges), report.judges_known) == (MOST_JUDGES, 80)
    assert len(report.pairs) == MOST_JUDGES * (MOST_JUDGES - 1) // 2
    assert all(judge.gold and judge.gold.confusion is None for judge in report.judges)
    assert all(pair.kappa is None for pair in report.pairs)
    assert report.labels == 2400
    VALID.validate(loads(dumps(as_json_object(report, "x"))))


def test_gold_tells_who_is_behind_the_best() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 200)
    answers = {
        "good": np.where(rng.random(200) < 0.9, truth, 1 - truth),
        "same": np.where(rng.random(200) < 0.88, truth, 1 - truth),
        "weak": np.where(rng.random(200) < 0.6, truth, 1 - truth),
    }
    rows = [(f"t{t}", name, int(said[t])) for name, said in answers.items() for t in range(200)]
    labels = Labels.of_answers(rows, ("no", "yes"))
    report = report_on(settled_evidence(labels, truth, [0, 0, 0]))
    best, second, last = report.judges
    assert last.worker == "weak"
    assert best.behind is None
    assert (second.behind or 0) > 0.05
    assert last.behind == pytest.approx(0, abs=1e-6)
    assert report.wrong is not None
    assert report.wrong.tasks == 0
    assert f"Of 200 tasks with a known truth {200 - report.jury.right} would be" in " ".join(
        findings(report)
    )
