from itertools import count
from math import exp, lgamma, log, log1p, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import Prior
from sbic.infer.intervals import beta_interval
from sbic.research.bounds import bounds


def log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def probability(k: int, n: int, alpha: float, beta: float) -> float:
    choices = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(choices + log_beta(k + alpha, n - k + beta) - log_beta(alpha, beta))


def f_sorted(labels: int, alpha: float, beta: float) -> float:
    """Theorem 1 as printed."""
    n = labels - 1
    total = n + alpha + beta
    return sum(
        probability(k, n, alpha, beta) * 2 * sqrt((k + alpha) / total * (n - k + beta) / total)
        for k in range(n + 1)
    )


def g_sorted(labels: int, alpha: float, beta: float) -> float:
    """Theorem 2 as printed."""
    n = labels - 1
    return sum(
        probability(k, n, alpha, beta)
        * log((k + alpha) / (n - k + beta))
        * ((k + alpha) - (n - k + beta))
        / (n + alpha + beta)
        for k in range(n + 1)
    )


def test_the_values_of_the_papers_crowd() -> None:
    crowd = bounds(10, Prior(alpha=4, beta=3))
    assert crowd.f_sorted == pytest.approx(0.9527049329, abs=5e-11)
    assert crowd.f_fast == pytest.approx(0.9670823334, abs=5e-11)
    assert crowd.g_sorted == pytest.approx(0.1932211384, abs=5e-11)
    assert crowd.g_fast == pytest.approx(0.1337102480, abs=5e-11)


@given(st.integers(1, 40), st.floats(0.1, 50), st.floats(0.1, 50))
def test_both_variants_are_those_of_the_theorems(labels: int, alpha: float, beta: float) -> None:
    ours = bounds(labels, Prior(alpha, beta))
    f = [f_sorted(h, alpha, beta) for h in range(1, labels + 1)]
    g = [g_sorted(h, alpha, beta) for h in range(1, labels + 1)]
    assert ours.f_sorted == pytest.approx(f[-1], rel=1e-9)
    assert ours.f_fast == pytest.approx(sum(f) / labels, rel=1e-9)
    assert ours.g_sorted == pytest.approx(g[-1], rel=1e-9, abs=1e-12)
    assert ours.g_fast == pytest.approx(sum(g) / labels, rel=1e-9, abs=1e-12)


def test_many_labels_tend_to_workers_whose_accuracy_is_known() -> None:
    # E[2 √(p (1 - p))] for p ~ Beta(4, 3)
    known = 2 * exp(log_beta(4.5, 3.5) - log_beta(4, 3))
    assert bounds(2000, Prior(4, 3)).f_sorted == pytest.approx(known, abs=1e-3)


def test_a_prior_that_is_sure_is_no_trouble() -> None:
    crowd = bounds(10, Prior(alpha=8e15, beta=2e15))
    assert crowd.f_sorted == pytest.approx(2 * sqrt(0.8 * 0.2), rel=1e-9)
    assert crowd.g_sorted == pytest.approx(log(4) * 0.6, rel=1e-9)


def test_a_prior_at_the_edge_of_the_numbers_has_a_finite_bound() -> None:
    crowd = bounds(10, Prior(alpha=1e300, beta=1e-300))
    assert crowd.f_sorted == pytest.approx(0)
    assert crowd.g_sorted == pytest.approx(log(1e300) - log(1e-300))


def test_no_labels_have_no_bound() -> None:
    with pytest.raises(ValueError, match="at least 1 label, not 0"):
        bounds(0, Prior())


# The interval against the continued fraction of the incomplete Beta function.


def fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete Beta function, by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    h = d
    for m in count(1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + even * d)
        c = 1 + even / c
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return h


def below(a: float, b: float, x: float) -> float:
    """The probability that a Beta(a, b) variable is below x."""
    factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return factor * fraction(a, b, x) / a
    return 1 - factor * fraction(b, a, 1 - x) / b


def is_the_quantile(x: float, tail: float, a: float, b: float) -> bool:
    """Whether the quantile is within 1e-6 of x."""
    low, high = x - 1e-6, x + 1e-6
    return (low <= 0 or below(a, b, low) <= tail) and (high >= 1 or below(a, b, high) >= tail)


SHAPES = st.floats(-2, 5).map(lambda power: 10**power)


@given(st.lists(st.tuples(SHAPES, SHAPES), min_size=1, max_size=8))
def test_each_end_is_exact_to_a_millionth(shapes: list[tuple[float, float]]) -> None:
    a, b = np.array(shapes).T
    low, high = beta_interval(a, b)
    for index, (one, other) in enumerate(shapes):
        assert is_the_quantile(low[index], 0.025, one, other)
        assert is_the_quantile(high[index], 0.975, one, other)


@pytest.mark.parametrize("labels", [0, 1, 10, 1_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_a_workers_interval_holds_the_accuracy(labels: int, share: float) -> None:
    right, wrong = labels * share + 2, labels - labels * share + 1
    ((low,), (high,)) = beta_interval(np.array([right]), np.array([wrong]))
    assert 0 <= low < right / (right + wrong) < high <= 1
    assert is_the_quantile(low, 0.025, right, wrong)
    assert is_the_quantile(high, 0.975, right, wrong)
