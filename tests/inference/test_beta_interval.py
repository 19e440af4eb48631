"""The interval against the continued fraction of the incomplete Beta function."""

from itertools import count
from math import exp, lgamma, log, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.infer.intervals import beta_interval


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
