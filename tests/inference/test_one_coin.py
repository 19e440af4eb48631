from math import exp, isfinite, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inference.algorithm import Prior
from pipeline.inference.one_coin import OneCoin
from tests.inference.crowds import priors


@given(priors, st.integers(0, 1000), st.floats(0, 1), st.sampled_from([1, -1]))
def test_a_vote_is_the_log_odds_of_the_workers_accuracy(
    prior: Prior, labels: int, share: float, label: int
) -> None:
    coin = OneCoin(prior)
    p = coin.accuracy(labels, share * labels)
    assert coin.vote(label, labels, share * labels) == pytest.approx(
        label * log(p / (1 - p)), abs=1e-9
    )


@given(st.floats(-30, 30), st.sampled_from([1, -1]))
def test_agreement_is_the_sigmoid(log_odds: float, label: int) -> None:
    expected = 1 / (1 + exp(-label * log_odds))
    assert OneCoin.agreement(label, log_odds) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("log_odds", [1e4, 1e308, float("inf")])
def test_agreement_never_overflows(log_odds: float) -> None:
    assert OneCoin.agreement(1, log_odds) == 1
    assert OneCoin.agreement(-1, log_odds) == 0
    assert OneCoin.agreement(1, -log_odds) == 0


@pytest.mark.parametrize("correct", [10.000000001, -0.000000001])
def test_a_count_that_rounding_left_outside_its_range_gives_the_vote_of_its_end(
    correct: float,
) -> None:
    coin = OneCoin(Prior(alpha=1e-12, beta=1e-12))
    vote = coin.vote(1, 10, correct)
    assert isfinite(vote)
    assert vote == pytest.approx(coin.vote(1, 10, min(max(correct, 0.0), 10.0)), abs=1e-9)
