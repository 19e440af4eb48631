"""AMF and EM against their equations written out as loops."""

from math import exp, log

import numpy as np
import pytest

from sbic.engine.labels import Labels, Prior
from sbic.research.baselines import amf, em


def sparse_crowd(seed: int) -> list[tuple[str, str, int]]:
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(12) for j in range(6) if rng.random() < 0.5]
    return [(f"t{i}", f"w{j}", int(rng.choice([1, 1, -1]))) for i, j in pairs]


def literal(
    triples: list[tuple[str, str, int]], q: float, a: float, b: float, p: float
) -> list[float]:
    """50 iterations of the two updates from accuracies p, with a and b answers credited."""
    workers = {worker for _, worker, _ in triples}
    tasks = list(dict.fromkeys(task for task, _, _ in triples))
    accuracy = dict.fromkeys(workers, p)
    z: dict[str, float] = {}
    for _ in range(50):
        for task in tasks:
            z[task] = log(q / (1 - q))
            for i, j, x in triples:
                if i == task:
                    z[task] += x * log(accuracy[j] / (1 - accuracy[j]))
        for worker in workers:
            own = [(i, x) for i, j, x in triples if j == worker]
            right = sum(1 / (1 + exp(-x * z[i])) for i, x in own)
            accuracy[worker] = (right + a) / (len(own) + a + b)
    return [z[task] for task in tasks]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", [Prior(2, 1, 0.5), Prior(4, 3, 0.3)])
def test_amf_is_its_equations(seed: int, prior: Prior) -> None:
    triples = sparse_crowd(seed)
    start = prior.alpha / (prior.alpha + prior.beta)
    expected = literal(triples, prior.q, prior.alpha, prior.beta, start)
    score = amf(Labels.of(triples), prior, np.random.default_rng()).score
    np.testing.assert_allclose(score, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_em_is_amf_with_one_answer_less_on_each_side(seed: int) -> None:
    triples = sparse_crowd(seed)
    expected = literal(triples, 0.3, 3, 2, 3 / 5)
    score = em(Labels.of(triples), Prior(4, 3, 0.3), np.random.default_rng()).score
    np.testing.assert_allclose(score, expected, rtol=1e-9, atol=1e-9)


def test_em_starts_at_two_thirds_with_the_generic_prior() -> None:
    labels = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "bob", -1)])
    score = em(labels, Prior(), np.random.default_rng(), iterations=1).score
    np.testing.assert_allclose(score, [2 * log(2), -log(2)])


def test_em_keeps_the_accuracy_of_a_worker_whom_all_confirm_inside_zero_and_one() -> None:
    labels = Labels.of((f"t{i}", worker, 1) for i in range(50) for worker in ("ann", "bob", "cy"))
    result = em(labels, Prior(), np.random.default_rng())
    assert np.isfinite(result.score).all()
    assert (result.prediction == 1).all()


def test_a_worker_who_contradicts_the_others_counts_against_their_label() -> None:
    honest = [(f"t{i}", f"w{j}", 1) for i in range(20) for j in range(4)]
    liar = [(f"t{i}", "liar", -1) for i in range(20)]
    disputed = [("t20", "liar", 1), ("t20", "stranger", 1), ("t20", "newcomer", -1)]
    labels = Labels.of(honest + liar + disputed)
    for algorithm in (amf, em):
        assert algorithm(labels, Prior(), np.random.default_rng()).prediction[20] == -1
