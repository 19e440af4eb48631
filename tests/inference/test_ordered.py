"""Ratings: settled with an order is its equations, comes to rest, and is better where it should."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.engine import Engine
from sbic.engine.labels import Ints, Labels
from sbic.engine.ratings import rated, within
from sbic.engine.state import NEAR
from sbic.infer.settled import Settled
from sbic.research.ratings import few_labels, simulated
from tests.examples import examples
from tests.inference.crowds import read, real_crowds
from tests.inference.operations import AT_LAST, COMMON, REST, Operation, happen, operations
from tests.inference.ordered_transcription import OrderedTranscription


@given(classes=st.integers(3, 6), drawn=operations(16))
@examples(8)
def test_the_engine_with_an_order_is_its_equations(classes: int, drawn: list[Operation]) -> None:
    engine = Engine("settled", classes=classes, common=COMMON, is_ordered=True)
    by_hand = OrderedTranscription(classes, common=COMMON)
    for operation in [*drawn, AT_LAST]:
        happen(operation, engine, by_hand)
        for i, labels in by_hand.labels.items():
            if labels:
                assert engine.inner_beliefs([i])[0] == pytest.approx(by_hand.belief[i], abs=1e-8)
        if operation[0] == "settle" and any(by_hand.labels.values()) and by_hand.settle(REST):
            engine.settle(REST)
            assert engine.state.crowd[NEAR] == pytest.approx(by_hand.crowd_near(), abs=1e-9)
            assert engine.outside.dependence == pytest.approx(by_hand.dependence, abs=1e-8)
            for i, labels in by_hand.labels.items():
                if labels:
                    assert engine.beliefs([i])[0] == pytest.approx(by_hand.published(i), abs=1e-8)


def fitted(labels: Labels, *, is_ordered: bool) -> Engine:
    engine = Engine("settled", classes=len(labels.classes), is_ordered=is_ordered)
    engine.take(labels.task, labels.worker, labels.answer)
    engine.settle(1e-9)
    return engine


def error(labels: Labels, truth: Ints, *, is_ordered: bool) -> tuple[float, float]:
    """Of the exact grade, and the mean distance of the median."""
    beliefs = fitted(labels, is_ordered=is_ordered).beliefs(np.arange(labels.tasks))
    known = truth >= 0
    off = np.abs(rated(beliefs).median - truth)[known]
    return float((beliefs.argmax(axis=1) != truth)[known].mean()), float(off.mean())


@pytest.mark.parametrize("seed", range(3))
def test_labels_in_any_order_come_to_rest_at_the_same_ratings(seed: int) -> None:
    labels, _ = simulated(np.random.default_rng(seed), tasks=120, workers=20)
    every = np.arange(labels.tasks)
    expected = fitted(labels, is_ordered=True).beliefs(every)
    order = np.random.default_rng(seed + 1).permutation(len(labels))
    found = fitted(labels.in_order(order), is_ordered=True).beliefs(every)
    assert found == pytest.approx(expected, abs=1e-7)


def test_a_label_that_is_taken_back_leaves_no_trace() -> None:
    labels, _ = simulated(np.random.default_rng(5), tasks=80, workers=12)
    kept = labels.in_order(np.arange(0, len(labels), 2))
    engine = Engine("settled", classes=5, is_ordered=True)
    engine.take(labels.task, labels.worker, labels.answer)
    gone = labels.in_order(np.arange(1, len(labels), 2))
    engine.take(gone.task, gone.worker, np.full(len(gone), -1))
    engine.settle(1e-10)
    every = np.unique(kept.task)
    expected = fitted(kept, is_ordered=True).beliefs(every)
    assert engine.beliefs(every) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("labels_per_task", [3, 12])
def test_workers_who_err_by_a_grade_are_understood_better_with_an_order(
    labels_per_task: int,
) -> None:
    crowds = [
        simulated(np.random.default_rng(seed), labels_per_task=labels_per_task) for seed in range(3)
    ]
    with_order, without = (
        np.mean([error(*crowd, is_ordered=is_ordered) for crowd in crowds], axis=0)
        for is_ordered in (True, False)
    )
    assert (with_order < without - 0.02).all()


def test_bias_and_spread_are_those_of_the_worker() -> None:
    rng = np.random.default_rng(3)
    labels, truth = simulated(rng, tasks=800, workers=12, labels_per_task=8, share_of_spammers=0)
    middle = (truth[labels.task] > 0) & (truth[labels.task] < 4)
    answer = labels.answer.copy()
    high, low = (labels.worker == 0) & middle, (labels.worker == 1) & middle
    answer[high], answer[low] = truth[labels.task[high]] + 1, truth[labels.task[low]] - 1
    known = fitted(replace(labels, answer=answer), is_ordered=True).workers(np.arange(12))
    assert known.bias is not None
    assert known.spread is not None
    assert known.bias[0] > known.bias[2:].max()
    assert known.bias[1] < known.bias[2:].min()
    assert (known.spread > 0).all()


# The real crowd that grades web pages.


def web() -> tuple[Labels, Ints]:
    folder = real_crowds().parent / "ratings"
    if not folder.is_dir():
        pytest.skip("there is no folder ratings beside SBIC_DATA")
    grades = tuple("12345")
    rows = [*read(folder / "web.labels.csv")]
    truth = {row["task"]: row["truth"] for row in read(folder / "web.truth.csv")}
    labels = Labels.of_answers(
        ((row["task"], row["worker"], grades.index(row["label"])) for row in rows), grades
    )
    numbers = [grades.index(t) if (t := truth.get(task)) else -1 for task in labels.task_names]
    return labels, np.array(numbers)


def test_on_web_an_order_makes_fewer_errors_and_smaller_ones() -> None:
    labels, truth = web()
    wrong, off = error(labels, truth, is_ordered=True)
    assert wrong < 0.145
    assert off < 0.16
    assert wrong < error(labels, truth, is_ordered=False)[0]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_on_web_it_is_not_worse_with_few_labels(most: int) -> None:
    labels, truth = few_labels(*web(), most, np.random.default_rng(0))
    (wrong, off), (before, off_before) = (
        error(labels, truth, is_ordered=is_ordered) for is_ordered in (True, False)
    )
    assert wrong < before + 0.01
    assert off < off_before + 0.01


# What is said of a task.


@given(st.lists(st.floats(1e-6, 1), min_size=3, max_size=9))
def test_the_interval_is_the_narrowest_that_has_80_percent(shares: list[float]) -> None:
    p = np.array([shares]) / sum(shares)
    found = rated(p)
    low, high = int(found.low[0]), int(found.high[0])
    assert p[0, low : high + 1].sum() >= 0.8 - 1e-8
    width = high - low
    assert width == 0 or within(p, width - 1)[0] < 0.8
    assert p[0, : found.median[0]].sum() < 0.5 <= p[0, : found.median[0] + 1].sum() + 1e-8
    assert found.mean[0] == pytest.approx(p[0] @ np.arange(len(shares)))


def test_the_least_certain_rating_is_that_with_the_largest_variance() -> None:
    engine = Engine("settled", classes=5, is_ordered=True)
    for j, (near, far) in enumerate([(1, 0), (2, 4), (1, 0), (2, 4)]):
        engine.take([0, 1], [j, j], [near, far])
    leads = engine.overview(np.array([0, 1, 2])).leads
    assert leads[1] < leads[0]
    assert (leads >= 0).all()
    beliefs = engine.beliefs([0, 1])
    grades = np.arange(5)
    variance = beliefs @ grades**2 - (beliefs @ grades) ** 2
    assert leads[:2] == pytest.approx(np.log(4 / variance))


def test_ratings_in_python() -> None:
    rows = [("t1", "ann", 4), ("t1", "bob", 5), ("t1", "cy", 4), ("t2", "ann", 1)]
    model: Settled[str, str, int] = Settled(scale="1..5").fit(rows)
    assert model.predict()["t1"] == 4
    found = model.predict_rating()["t1"]
    assert 3 < found["mean"] < 5
    assert (found["median"], found["low"], found["high"]) == (4, 4, 5)
    assert model.worker("ann").spread is not None
    words = ["bad", "fair", "good"]
    named: Settled[str, str, str] = Settled(words, ordered=True).fit(
        [("t1", "ann", "good"), ("t1", "bob", "fair")]
    )
    assert named.predict_rating()["t1"]["high"] == "good"
    with pytest.raises(ValueError, match="a label is 1, 2, 3, 4 or 5, not 6"):
        model.partial_fit([("t9", "ann", 6)])
    with pytest.raises(ValueError, match="scale is two whole numbers"):
        Settled(scale="5")
    with pytest.raises(ValueError, match="ordered classes are 3 or more"):
        Settled(["bad", "good"], ordered=True)
    with pytest.raises(ValueError, match="ordered needs classes"):
        Settled(ordered=True)
    with pytest.raises(ValueError, match="have an order with scale"):
        Settled().fit([("t1", "ann", 1)]).predict_rating()
