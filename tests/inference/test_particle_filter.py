"""The particle filter against the exact posterior, by adding up all possible truths."""

from itertools import product
from math import lgamma

import numpy as np
import pytest

from sbic.engine.labels import Floats, Prior
from sbic.research.particle_filter import ParticleFilter
from tests.inference.paper import Triple

TASKS, WORKERS = 4, 5
LABELS: list[Triple] = [
    *((0, 0, 1), (1, 0, 1), (2, 0, -1), (0, 1, 1), (1, 1, 1), (2, 1, -1), (3, 1, 1)),
    *((0, 2, -1), (3, 2, -1), (1, 3, -1), (2, 3, -1), (3, 4, 1), (0, 4, 1)),
]
PRIORS = [Prior(4, 3), Prior(2, 1, q=0.3)]


def log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def exact_score(labels: list[Triple], prior: Prior) -> Floats:
    """P(y_i = +1) - P(y_i = -1), the accuracies integrated out."""
    truths = np.array(list(product((-1, 1), repeat=TASKS)))
    log_weight = []
    for truth in truths:
        total = sum(np.log(prior.q if y > 0 else 1 - prior.q) for y in truth)
        for j in range(WORKERS):
            right = sum(truth[i] == x for i, worker, x in labels if worker == j)
            wrong = sum(truth[i] != x for i, worker, x in labels if worker == j)
            total += log_beta(prior.alpha + right, prior.beta + wrong)
        log_weight.append(total)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    score: Floats = weight @ truths / weight.sum()
    return score


def filtered(
    labels: list[Triple], prior: Prior, seed: int, between_sweeps: int, more_sweeps: int = 0
) -> Floats:
    rng = np.random.default_rng(seed)
    crowd = ParticleFilter(
        *(TASKS, WORKERS, TASKS, prior, rng),
        particles=100_000,
        labels_between_sweeps=between_sweeps,
    )
    for label in labels:
        crowd.observe(*label)
    for _ in range(more_sweeps):
        crowd.sweep()
    return crowd.score


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("count", [1, 7, len(LABELS)])
def test_the_weights_alone_give_the_posterior(prior: Prior, count: int) -> None:
    score = filtered(LABELS[:count], prior, seed=1, between_sweeps=10**6)
    assert score == pytest.approx(exact_score(LABELS[:count], prior), abs=0.03)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_sweeps_alone_give_the_posterior(prior: Prior) -> None:
    """They leave nothing of the weights, and need some rounds to forget where they began."""
    score = filtered(LABELS, prior, seed=2, between_sweeps=1, more_sweeps=20)
    assert score == pytest.approx(exact_score(LABELS, prior), abs=0.015)


def test_before_any_label_the_particles_follow_the_prior() -> None:
    score = filtered([], Prior(4, 3, q=0.3), seed=3, between_sweeps=10)
    assert score == pytest.approx([2 * 0.3 - 1] * TASKS, abs=0.02)


def test_the_weights_return_to_one_every_ten_labels() -> None:
    rng = np.random.default_rng(4)
    crowd = ParticleFilter(TASKS, WORKERS, TASKS, Prior(4, 3), rng)
    for count, label in enumerate(LABELS, start=1):
        crowd.observe(*label)
        of_fifty = (crowd.score + 1) * 25
        is_whole = np.allclose(of_fifty, of_fifty.round(), atol=1e-9)
        assert is_whole == (count == 10), count


def test_the_same_seed_gives_the_same_scores() -> None:
    runs = [filtered(LABELS, PRIORS[0], seed, between_sweeps=10) for seed in (5, 5, 6)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
