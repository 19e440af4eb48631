"""What holds for every algorithm of the registry, SBIC included."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import Estimate, Labels, Prior
from sbic.infer.registry import ALGORITHMS

TRIPLES = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("vwxyz"), st.sampled_from([1, -1, 0])),
    min_size=1,
    max_size=30,
)
ODD = [name for name in ALGORITHMS if name != "mc"]  # the draws of mc do not mirror exactly

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def estimate(name: str, labels: Labels, prior: Prior | None = None) -> Estimate:
    result = ALGORITHMS[name].load()(labels, prior or Prior(), np.random.default_rng(7))
    assert isinstance(result, Estimate)
    return result


def good_crowd(tasks: int = 60, workers: int = 9, seed: int = 3) -> tuple[Labels, list[int]]:
    """Every worker labels every task and is right with a probability from 0.6 to 0.95."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([1, -1], tasks)
    accuracy = np.linspace(0.6, 0.95, workers)
    right = np.where(rng.random((tasks, workers)) < accuracy, 1, -1)
    answers = truth[:, None] * right
    triples = [(f"t{i}", f"w{j}", int(answers[i, j])) for i in range(tasks) for j in range(workers)]
    rng.shuffle(triples)
    labels = Labels.of((str(task), str(worker), int(label)) for task, worker, label in triples)
    return labels, [int(truth[int(name[1:])]) for name in labels.task_names]


@every_algorithm
def test_a_good_crowd_is_understood(name: str) -> None:
    labels, truth = good_crowd()
    assert estimate(name, labels).error((np.array(truth) + 1) // 2) < 0.05


@every_algorithm
@given(triples=TRIPLES)
def test_every_task_gets_a_finite_score_whatever_the_labels(
    name: str, triples: list[tuple[str, str, int]]
) -> None:
    labels = Labels.of(triples)
    result = estimate(name, labels)
    assert result.score.shape == (labels.tasks,)
    assert np.isfinite(result.score).all()


@pytest.mark.parametrize("name", ODD)
@given(triples=TRIPLES)
def test_the_opposite_labels_give_the_opposite_scores(
    name: str, triples: list[tuple[str, str, int]]
) -> None:
    score = estimate(name, Labels.of(triples)).score
    opposite = estimate(name, Labels.of((task, who, -label) for task, who, label in triples))
    np.testing.assert_allclose(opposite.score, -score, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ODD)
def test_the_numbers_of_the_workers_do_not_matter(name: str) -> None:
    labels, _ = good_crowd()
    other = np.random.default_rng(5).permutation(labels.workers)
    renumbered = replace(labels, worker=other[labels.worker])
    np.testing.assert_allclose(
        estimate(name, renumbered).score, estimate(name, labels).score, rtol=1e-9
    )


@every_algorithm
def test_a_file_of_skips_leaves_every_task_at_the_prior(name: str) -> None:
    result = estimate(name, Labels.of([("t1", "ann", 0), ("t2", "bob", 0)]), Prior(q=0.25))
    learns_prior = name.startswith("settled")  # and from no task it learns nothing
    expected = np.log(1 / 3) if result.is_log_odds and not learns_prior else 0
    np.testing.assert_allclose(result.score, expected)


@pytest.mark.parametrize("name", ["em", "amf", "mc"])
@pytest.mark.parametrize("prior", [Prior(1e-300, 1e-300), Prior(1e300, 1e-300), Prior(0.5, 0.5)])
def test_an_extreme_prior_gives_finite_scores(name: str, prior: Prior) -> None:
    labels, _ = good_crowd(tasks=5, workers=4)
    assert np.isfinite(estimate(name, labels, prior).score).all()


@every_algorithm
def test_the_same_seed_gives_the_same_estimate(name: str) -> None:
    labels, _ = good_crowd(tasks=20)
    np.testing.assert_array_equal(estimate(name, labels).score, estimate(name, labels).score)


def test_an_algorithm_is_random_where_the_seed_or_the_order_changes_its_estimate() -> None:
    labels, _ = good_crowd(tasks=20)
    order = np.random.default_rng(1).permutation(len(labels))
    for name, entry in ALGORITHMS.items():
        algorithm = entry.load()
        here = algorithm(labels, Prior(), np.random.default_rng(1)).score
        there = algorithm(labels.in_order(order), Prior(), np.random.default_rng(2)).score
        assert np.allclose(here, there, rtol=1e-6) == (not entry.is_random), name
