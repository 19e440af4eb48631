from itertools import product
from math import lgamma

import numpy as np
import pytest

from sbic.engine.labels import Floats, Labels, Prior
from sbic.research.baselines import mc


def exact(labels: Labels, prior: Prior) -> Floats:
    """The probability of +1 of each task, summed over all truths with the accuracies integrated."""
    total = np.zeros(labels.tasks)
    norm = 0.0
    for truth in product((1, -1), repeat=labels.tasks):
        y = np.array(truth)
        is_right = labels.label == y[labels.task]
        right = np.bincount(labels.worker, is_right, labels.workers)
        wrong = np.bincount(labels.worker, ~is_right, labels.workers)
        a, b = prior.alpha + right, prior.beta + wrong
        evidence = sum(lgamma(p) + lgamma(r) - lgamma(p + r) for p, r in zip(a, b, strict=True))
        weight = np.exp(evidence + (y == 1).sum() * prior.log_odds)
        total += weight * (y == 1)
        norm += weight
    return total / norm


@pytest.mark.parametrize("prior", [Prior(), Prior(4, 3, 0.3)])
def test_the_average_of_the_chain_is_the_exact_posterior(prior: Prior) -> None:
    rng = np.random.default_rng(0)
    labels = Labels.of(
        (f"t{i}", f"w{j}", int(rng.choice([1, 1, -1]))) for i in range(5) for j in range(4)
    )
    probability = mc(labels, prior, np.random.default_rng(11), sweeps=30_000).probability
    assert probability is not None
    # the standard deviation over seeds is 0.005
    np.testing.assert_allclose(probability, exact(labels, prior), atol=0.02)


def test_a_task_on_which_hundreds_agree_keeps_a_finite_log_odds() -> None:
    labels = Labels.of((f"t{i}", f"w{j}", 1) for i in range(20) for j in range(400))
    score = mc(labels, Prior(), np.random.default_rng(1), sweeps=50).score
    assert np.isfinite(score).all()
    assert (score > 100).all()


def test_another_seed_gives_another_chain() -> None:
    labels = Labels.of([("t1", "ann", 1), ("t1", "bob", -1), ("t2", "bob", 1)])
    first, second = (mc(labels, Prior(), np.random.default_rng(seed)).score for seed in (1, 2))
    assert not np.array_equal(first, second)
