"""Agreement: published worked examples, and the figures of other packages."""

import importlib

import numpy as np
import pytest

from sbic.infer.agreement import (
    base_rate,
    by_chance,
    calibration_error,
    cohen_kappa,
    coincidences,
    confusion,
    krippendorff_alpha,
    pair_counts,
    reliability,
    sign_test,
)
from sbic.infer.intervals import wilson
from tests.inference.crowds import crowd_of_classes

# Krippendorff: Computing Krippendorff's Alpha-Reliability (2011), sections B and C; 0 is missing.
BINARY = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]
FOUR = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def alpha(rows: list[list[int]], classes: int, *, is_ordered: bool = False) -> float:
    """Of answers from 1 on in a row for each judge."""
    triples = [(task, answer - 1) for row in rows for task, answer in enumerate(row) if answer]
    tasks, answers = np.array(triples).T
    found = krippendorff_alpha(coincidences(tasks, answers, classes), is_ordered=is_ordered)
    assert found is not None
    return found


def test_alpha_is_that_of_krippendorffs_examples() -> None:
    binary = [[answer + 1 for answer in row] for row in BINARY]
    assert alpha(binary, 2) == pytest.approx(0.095, abs=5e-4)
    assert alpha(FOUR, 5) == pytest.approx(0.743, abs=5e-4)
    assert alpha(FOUR, 5, is_ordered=True) == pytest.approx(0.815, abs=5e-4)


def test_alpha_does_not_depend_on_how_many_tasks_are_counted_at_once() -> None:
    labels, _ = crowd_of_classes(4, tasks=50, workers=8, labels_per_task=3, seed=1)
    columns = labels.task, labels.answer, 4
    np.testing.assert_allclose(coincidences(*columns), coincidences(*columns, at_once=12))


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        ([[20, 5], [10, 15]], 0.4),  # Kilem Gwet's, as in most textbooks
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
        ([[50, 0], [0, 50]], 1.0),
    ],
)
def test_kappa_is_that_of_worked_examples(table: list[list[int]], kappa: float) -> None:
    assert cohen_kappa(np.array(table)) == pytest.approx(kappa, abs=5e-5)


def test_kappa_says_nothing_where_there_is_one_class_only() -> None:
    assert cohen_kappa(np.array([[50, 0], [0, 0]])) is None
    assert krippendorff_alpha(np.array([[50.0, 0.0], [0.0, 0.0]])) is None
    assert base_rate(np.array([[50, 0], [0, 0]])) == 1


@pytest.mark.parametrize(
    ("right", "trials", "low", "high"),  # Newcombe: Statistics in Medicine 1998, table I
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_intervals_are_those_of_newcombe(
    right: int, trials: int, low: float, high: float
) -> None:
    assert wilson(right, trials) == pytest.approx((low, high), abs=5e-5)


def test_fishers_tea_and_a_sign_test() -> None:
    assert by_chance(8, 4, 4, 3) == pytest.approx(17 / 70)  # Fisher, The Design of Experiments
    assert by_chance(8, 4, 4, 4) == pytest.approx(1 / 70)
    assert sign_test(7, 1) == pytest.approx(2 * 9 / 256)
    assert sign_test(3, 3) == 1
    assert sign_test(0, 0) == 1
    assert 0 < sign_test(6000, 5600) < 0.001  # no overflow


def test_pairs_are_counted_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    answers = rng.integers(-1, 3, (40, 4))
    p = rng.dirichlet(np.ones(3), 40)
    contested = rng.random(40) < 0.5
    found = pair_counts(answers, p, contested)
    kappas = found.kappas
    assert kappas is not None
    for a, b in ((0, 1), (2, 3), (3, 0)):
        both = [t for t in range(40) if answers[t, a] >= 0 and answers[t, b] >= 0]
        same = [t for t in both if answers[t, a] == answers[t, b]]
        right = sum(p[t, answers[t, a]] for t in same)
        assert found.both[a, b] == len(both)
        assert found.same[a, b] == len(same)
        assert found.contested_same[a, b] == sum(contested[t] for t in same)
        assert found.right[a, b] == pytest.approx(right)
        assert found.wrong[a, b] == pytest.approx(sum(1 - p[t, answers[t, a]] for t in both))
        table = confusion(answers[both, a], answers[both, b], 3)
        assert kappas[a, b] == pytest.approx(cohen_kappa(table))
    halves = pair_counts(answers[:15], p[:15], contested[:15])
    whole = halves.plus(pair_counts(answers[15:], p[15:], contested[15:]))
    for one, other in zip(found, whole, strict=True):
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(one, other)


# Side by side with other packages: `make integrations` installs them.


def the(package: str) -> object:
    return pytest.importorskip(package, reason=f"{package}: run make integrations")


@pytest.mark.filterwarnings("ignore")
def test_kappa_and_confusion_are_those_of_scikit_learn_and_statsmodels() -> None:
    the("sklearn")
    the("statsmodels")
    metrics = importlib.import_module("sklearn.metrics")
    raters = importlib.import_module("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(7)
    for classes in (2, 3, 6):
        truth = rng.integers(0, classes, 200)
        answers = np.where(rng.random(200) < 0.6, truth, rng.integers(0, classes, 200))
        table = confusion(truth, answers, classes)
        np.testing.assert_array_equal(table, metrics.confusion_matrix(truth, answers))
        kappa = cohen_kappa(table)
        assert kappa == pytest.approx(metrics.cohen_kappa_score(truth, answers))
        assert kappa == pytest.approx(raters.cohens_kappa(table, return_results=False))


@pytest.mark.filterwarnings("ignore")
def test_alpha_is_that_of_the_package_krippendorff() -> None:
    the("krippendorff")
    theirs = importlib.import_module("krippendorff").alpha
    for seed, classes in ((1, 2), (2, 3), (3, 5)):
        labels, _ = crowd_of_classes(classes, 80, 9, 4, seed)
        table = np.full((labels.workers, labels.tasks), np.nan)
        table[labels.worker, labels.task] = labels.answer
        pairs = coincidences(labels.task, labels.answer, classes)
        for level in ("nominal", "ordinal"):
            expected = theirs(
                reliability_data=table,
                level_of_measurement=level,
                value_domain=list(range(classes)),
            )
            assert krippendorff_alpha(pairs, is_ordered=level == "ordinal") == pytest.approx(
                expected
            )


@pytest.mark.filterwarnings("ignore")
def test_intervals_and_tests_are_those_of_statsmodels_and_scipy() -> None:
    the("statsmodels")
    proportion = importlib.import_module("statsmodels.stats.proportion")
    tables = importlib.import_module("statsmodels.stats.contingency_tables")
    scipy = importlib.import_module("scipy.stats")
    for right, trials in ((0, 9), (41, 50), (600, 700)):
        expected = proportion.proportion_confint(right, trials, method="wilson")
        assert wilson(right, trials) == pytest.approx(expected)
    for first, second in ((9, 1), (30, 44), (0, 5)):
        found = tables.mcnemar([[5, first], [second, 7]], exact=True).pvalue
        assert sign_test(first, second) == pytest.approx(found)
    for tasks, first, second, both in ((50, 10, 12, 6), (300, 80, 90, 20), (10, 9, 9, 8)):
        table = [[both, first - both], [second - both, tasks - first - second + both]]
        found = scipy.fisher_exact(table, alternative="greater")[1]
        assert by_chance(tasks, first, second, both) == pytest.approx(found)


@pytest.mark.filterwarnings("ignore")
def test_the_reliability_diagram_is_that_of_scikit_learn() -> None:
    the("sklearn")
    calibration = importlib.import_module("sklearn.calibration")
    rng = np.random.default_rng(3)
    sure = rng.uniform(0.3, 1, 400)
    is_right = rng.random(400) < sure
    right, mean = calibration.calibration_curve(is_right, sure, n_bins=10)
    found = reliability(sure, is_right)
    np.testing.assert_allclose([each.right for each in found], right)
    np.testing.assert_allclose([each.confidence for each in found], mean)
    weights = np.array([each.tasks for each in found]) / 400
    ece = float((weights * np.abs(right - mean)).sum())
    assert calibration_error(sure, is_right.astype(np.float64)) == pytest.approx(ece)
