"""What holds for every algorithm of the registry, SBIC included."""

from dataclasses import replace
from itertools import combinations, product
from math import exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import TIE, ClassEstimate, Estimate, Floats, Labels, Prior
from sbic.infer.dawid_skene import majority
from sbic.infer.registry import ALGORITHMS
from sbic.research.baselines import amf, em, kos, mc
from sbic.research.triangular import reliabilities, te

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


# A gateway's view of a project, fed with records, without Kafka.


def crowd(seed: int) -> tuple[Labels, Floats]:
    """A sparse crowd of fair workers, and its task-worker matrix."""
    rng = np.random.default_rng(seed)
    right = np.where(rng.random((40, 12)) < 0.8, 1, -1)
    matrix = np.where(rng.random((40, 12)) < 0.6, right, 0)
    labels = Labels.of(
        (f"{i}", f"{j}", int(x)) for (i, j), x in np.ndenumerate(matrix)
    )  # 0 keeps the numbering
    return labels, matrix.astype(np.float64)


@pytest.mark.parametrize("seed", range(3))
def test_the_score_becomes_the_leading_singular_vector(seed: int) -> None:
    labels, matrix = crowd(seed)
    left, _, _ = np.linalg.svd(matrix)
    leading = left[:, 0] * np.sign(left[:, 0] @ matrix.sum(axis=1))
    score = kos(labels, Prior(), np.random.default_rng(), iterations=2000).score
    np.testing.assert_allclose(score, leading, atol=1e-9)


def test_five_iterations_are_five_multiplications_by_the_matrix_and_its_transpose() -> None:
    labels, matrix = crowd(9)
    expected = np.linalg.matrix_power(matrix @ matrix.T, 5) @ matrix.sum(axis=1)
    result = kos(labels, Prior(), np.random.default_rng(), iterations=5)
    np.testing.assert_allclose(result.score, expected / np.linalg.norm(expected), rtol=1e-9)
    assert not result.is_log_odds


def test_a_crowd_without_a_majority_anywhere_is_all_ties() -> None:
    labels = Labels.of([("t1", "ann", 1), ("t1", "bob", -1)])
    assert kos(labels, Prior(), np.random.default_rng()).score.tolist() == [0]


# A gateway's view of a project, fed with records, without Kafka.


def test_the_score_is_the_balance_of_the_votes_and_a_tie_is_a_tie() -> None:
    answers = {"yes": (1, 1, -1), "tie": (1, -1, 0), "no": (-1, -1, -1)}
    labels = Labels.of(
        (task, str(worker), label) for task in answers for worker, label in enumerate(answers[task])
    )
    result = majority(labels, Prior(q=0.9), np.random.default_rng())
    assert isinstance(result, Estimate)
    assert result.score.tolist() == [1, 0, -3]
    assert result.prediction.tolist() == [1, 0, -1]
    assert result.probability is None
    assert result.error(np.array([1, 1, 1])) == 0.5


def test_of_any_classes_the_one_with_the_most_votes_is_taken() -> None:
    answers = {"dog": (1, 1, 2), "tie": (0, 2, None), "nothing": (None, None, None)}
    labels = Labels.of_answers(
        ((task, str(worker), a) for task in answers for worker, a in enumerate(answers[task])),
        ("cat", "dog", "bird"),
    )
    result = majority(labels, Prior(), np.random.default_rng())
    assert isinstance(result, ClassEstimate)
    assert not result.is_probability
    assert result.score.tolist() == [[0, 2, 1], [1, 0, 1], [0, 0, 0]]
    assert result.prediction.tolist() == [1, TIE, TIE]
    # one right, one of two tied, one of three
    assert result.error(np.array([1, 0, 0])) == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)


# A gateway's view of a project, fed with records, without Kafka.


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


# AMF and EM against their equations written out as loops.


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


# AMF and EM against their equations written out as loops.


def literal_te(matrix: Floats) -> Floats:
    """Algorithm TE of Bonald and Combes on a matrix of workers by tasks."""
    workers = len(matrix)
    shared = np.abs(matrix) @ np.abs(matrix).T
    c = (matrix @ matrix.T) / np.maximum(shared, 1)
    size = np.zeros(workers)
    for k in range(workers):
        pairs = combinations([w for w in range(workers) if w != k], 2)
        i, j = max(pairs, key=lambda pair: abs(c[pair]))
        if c[i, j] != 0:
            size[k] = np.sqrt(abs(c[i, k] * c[j, k] / c[i, j]))
    sums = [size[k] ** 2 + sum(c[i, k] for i in range(workers) if i != k) for k in range(workers)]
    best = int(np.argmax(np.abs(sums)))
    theta = np.zeros(workers)
    theta[best] = np.sign(sums[best]) * size[best]
    for k in range(workers):
        if k != best:
            theta[k] = size[k] * np.sign(sums[best]) * np.sign(c[k, best])
    return theta


def labels_of(matrix: Floats) -> Labels:
    """Numbered like the rows and columns: a 0 of the matrix is a skip."""
    return Labels.of((f"{t}", f"{w}", int(x)) for (w, t), x in np.ndenumerate(matrix))


@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_algorithm_written_out(seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    right = np.where(rng.random((8, 30)) < rng.uniform(0.3, 0.95, (8, 1)), 1.0, -1.0)
    matrix = np.where(rng.random((8, 30)) < density, right, 0)
    np.testing.assert_allclose(reliabilities(labels_of(matrix)), literal_te(matrix), rtol=1e-9)


def test_a_worker_who_contradicts_two_who_agree_is_unreliable() -> None:
    matrix = np.array([[1, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 1, -1]], dtype=np.float64)
    # C_12 = 1, C_13 = C_23 = -1/2: θ_1 = θ_2 = 1, θ_3 = -1/2, by hand
    np.testing.assert_allclose(reliabilities(labels_of(matrix)), [1, 1, -0.5])
    result = te(labels_of(matrix), Prior(), np.random.default_rng())
    assert result.prediction.tolist() == [1, 1, -1, -1]
    assert np.isfinite(result.score).all()
    assert not result.is_log_odds


@pytest.mark.parametrize("workers", [1, 2])
def test_without_a_triangle_everything_is_a_tie(workers: int) -> None:
    matrix = np.ones((workers, 3))
    assert te(labels_of(matrix), Prior(), np.random.default_rng()).score.tolist() == [0, 0, 0]


def test_of_equal_pairs_the_first_in_the_file_counts() -> None:
    # ann and bob agree on all, bob and cy do, ann and cy never meet; dan meets ann and bob only
    answers = {"ann": "++0++0", "bob": "++++++", "cy": "00+00+", "dan": "+-0+-0"}
    value = {"+": 1, "-": -1, "0": 0}
    labels = Labels.of((f"{t}", w, value[x]) for w in answers for t, x in enumerate(answers[w]))
    matrix = np.array([[value[x] for x in row] for row in answers.values()], dtype=np.float64)
    np.testing.assert_allclose(reliabilities(labels), literal_te(matrix))
