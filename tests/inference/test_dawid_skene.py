"""Dawid-Skene against its equations written out as loops, and on the real crowds."""

import tracemalloc
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import AnyEstimate, ClassEstimate, Estimate, Labels, Prior
from sbic.infer.dawid_skene import ITERATIONS, dawid_skene
from tests.inference.crowds import real_crowd

Answer = tuple[int, int, int]

TASKS, WORKERS = 6, 4


def crowds_of(classes: int) -> st.SearchStrategy[tuple[int, list[Answer]]]:
    """Task, worker and answer, no pair twice."""
    one = st.tuples(
        st.integers(0, TASKS - 1), st.integers(0, WORKERS - 1), st.integers(0, classes - 1)
    )
    answers = st.lists(one, min_size=1, max_size=20, unique_by=lambda answer: answer[:2])
    return st.tuples(st.just(classes), answers)


crowds = st.integers(2, 4).flatmap(crowds_of)


def literal(classes: int, answers: list[Answer], iterations: int) -> list[list[float]]:
    """μ after this many iterations, from the shares of the votes."""
    every, tasks = range(classes), {i for i, _, _ in answers}
    votes = {i: [x for task, _, x in answers if task == i] for i in tasks}
    mu = {i: [votes[i].count(k) / len(votes[i]) for k in every] for i in tasks}
    for _ in range(iterations):
        p = [0.01 + sum(mu[i][k] for i in tasks) for k in every]
        p = [share / sum(p) for share in p]
        pi = {}
        for j in range(WORKERS):
            for k in every:
                count = [
                    0.01 + sum(mu[i][k] for i, who, x in answers if (who, x) == (j, answer))
                    for answer in every
                ]
                pi[j, k] = [n / sum(count) for n in count]
        for i in tasks:
            weight = list(p)
            for task, j, x in answers:
                if task == i:
                    weight = [weight[k] * pi[j, k][x] for k in every]
            mu[i] = [w / sum(weight) for w in weight]
    return [mu.get(i, p) for i in range(TASKS)]


def labels_of(classes: tuple[str, ...], answers: list[Answer]) -> Labels:
    """With TASKS and WORKERS, whether or not all of them occur."""
    task, worker, answer = (np.array(column, np.int64) for column in zip(*answers, strict=True))
    names = tuple(map(str, range(TASKS))), tuple(map(str, range(WORKERS)))
    return Labels(task, worker, answer, *names, classes)


def estimate(labels: Labels, iterations: int = ITERATIONS) -> AnyEstimate:
    return dawid_skene(labels, Prior(q=0.25), np.random.default_rng(), iterations)


@given(crowds, st.integers(1, 4))
def test_dawid_skene_is_its_equations(crowd: tuple[int, list[Answer]], iterations: int) -> None:
    classes, answers = crowd
    labels = labels_of(("a", "b", "c", "d")[:classes], answers)
    result = estimate(labels, iterations)
    assert isinstance(result, ClassEstimate)
    # they stop where nothing changes any more, but the loops do not
    expected = literal(classes, answers, iterations)
    np.testing.assert_allclose(result.score, expected, rtol=0, atol=1e-5)


@given(crowds_of(2))
def test_the_log_odds_are_those_of_the_same_classes_under_other_names(
    crowd: tuple[int, list[Answer]],
) -> None:
    _, answers = crowd
    signs = estimate(labels_of(("-1", "1"), answers))
    named = estimate(labels_of(("no", "yes"), answers))
    assert isinstance(signs, Estimate)
    assert signs.probability is not None
    np.testing.assert_allclose(signs.probability, named.score[:, 1], rtol=1e-9)


def test_it_ends_when_nothing_changes_any_more() -> None:
    labels, _ = real_crowd("birds")
    score = estimate(labels).score
    np.testing.assert_array_equal(score, estimate(labels, iterations=30).score)
    assert not np.array_equal(score, estimate(labels, iterations=10).score)


def test_a_task_without_labels_gets_the_share_of_the_classes() -> None:
    answers = [(f"t{i}", who, 0 if i < 6 else 2) for i in range(8) for who in ("ann", "bob")]
    labels = Labels.of_answers([*answers, ("skipped", "ann", None)], ("a", "b", "c"))
    np.testing.assert_allclose(estimate(labels).score[-1], [0.75, 0, 0.25], atol=0.005)


def test_without_any_label_every_class_is_as_probable() -> None:
    result = estimate(Labels.of_answers([("t1", "ann", None)], ("a", "b", "c", "d")))
    assert result.score.tolist() == [[0.25] * 4]
    signs = estimate(Labels.of([("t1", "ann", 0)]))
    np.testing.assert_allclose(signs.score, log(0.25 / 0.75))


def test_a_worker_who_mixes_up_two_classes_is_as_good_as_one_who_does_not() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 60)
    swapped = np.array([1, 0, 2])
    answers = [(f"t{i}", who, int(y)) for i, y in enumerate(truth) for who in ("ann", "bob", "cy")]
    answers += [(f"t{i}", "dee", int(swapped[y])) for i, y in enumerate(truth)]
    answers += [("new", "dee", 0)]
    result = estimate(Labels.of_answers(answers, ("a", "b", "c")))
    assert result.prediction.tolist() == [*truth.tolist(), 1]


def test_memory_grows_with_labels_times_classes_not_with_classes_squared() -> None:
    classes = tuple(map(str, range(2000)))
    answers = [(f"t{i}", f"w{j}", i) for i in range(10) for j in range(20)]
    labels = Labels.of_answers(answers, classes)
    tracemalloc.start()
    result = estimate(labels, iterations=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.prediction.tolist() == list(range(10))
    assert peak < 10 * 8 * len(labels) * len(classes)  # a full matrix for each worker: 200 times


# What this code gave when it was written: they guard against a change, they are no reference.
ERRORS = {
    "dog": 0.1574,
    "face": 0.3596,
    "rte": 0.0725,
    "temp": 0.0584,
    "birds": 0.1019,
    "ducks": 0.4000,
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_on_the_real_crowds_is_what_it_was(name: str) -> None:
    labels, truth = real_crowd(name)
    assert estimate(labels).error(truth) == pytest.approx(ERRORS[name], abs=6e-5)
