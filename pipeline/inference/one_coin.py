"""A worker as one coin: right with the same probability p on every task, p ~ Beta(α, β)."""

from collections.abc import Sequence
from math import exp

import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.beta_interval import beta_interval
from pipeline.inference.compiled import uncompiled
from pipeline.inference.engine.fast_sbic import log_weight

_log_weight = uncompiled(log_weight)  # a call of compiled code costs more than so few numbers


class OneCoin:
    """The formulas of the one-coin model; who asks keeps the counts, the log-odds and the votes.

    Of n labels a worker is expected to have c right, each with the probability that its task's
    log-odds z give it (equation 5):

        c = Σ sig(x z)        p = (c + α) / (n + α + β)

    and a new label x adds this to its task's log-odds (equation 6):

        x log(p / (1 - p)) = x log((c + α) / (n - c + β))

    >>> coin = OneCoin(Prior(alpha=2, beta=1))
    >>> coin.vote(-1, labels=0, correct=0.0)  # a stranger's label weighs log(α / β)
    -0.6931471805599453
    >>> coin.agreement(-1, log_odds=-0.6931471805599453)  # that label's part in c
    0.6666666666666666
    >>> coin.accuracy(labels=1, correct=0.6666666666666666)
    0.6666666666666666
    """

    __slots__ = ("alpha", "beta")

    def __init__(self, prior: Prior) -> None:
        self.alpha = prior.alpha
        self.beta = prior.beta

    def vote(self, label: int, labels: int, correct: float) -> float:
        """What `label` adds to its task's log-odds, by a worker with so many labels before it."""
        return label * _log_weight(labels, correct, self.alpha, self.beta)

    @staticmethod
    def agreement(label: int, log_odds: float) -> float:
        """sig(x z): the probability that `label` is right, where its task has these log-odds."""
        support = label * log_odds
        if support >= 0.0:
            return 1.0 / (1.0 + exp(-support))
        odds = exp(support)  # of a large number exp overflows, of its negative it is 0
        return odds / (1.0 + odds)

    def accuracy(self, labels: int, correct: float) -> float:
        """The expected accuracy of a worker with these counts (Algorithm 1, line 5)."""
        return (correct + self.alpha) / (labels + self.alpha + self.beta)

    def intervals(self, counts: Sequence[tuple[int, float]]) -> list[list[float]]:
        """For workers with these labels and correct: where their accuracy lies with 95 %.

        >>> ((low, high),) = OneCoin(Prior(alpha=1, beta=1)).intervals([(0, 0.0)])
        >>> f"{low:.5f} {high:.5f}"
        '0.02500 0.97500'
        """
        n, c = np.array(counts).T
        right = np.maximum(c, 0.0) + self.alpha
        wrong = np.maximum(n - c, 0.0) + self.beta
        found: list[list[float]] = beta_interval(right, wrong).T.tolist()
        return found

    def shift(self, before: float, after: float) -> dict[int, float]:
        """How the part of each label in c moves when its task's log-odds move.

        >>> OneCoin(Prior()).shift(0.0, 0.6931471805599453)
        {1: 0.16666666666666663, -1: -0.16666666666666663}
        """
        moved = self.agreement(1, after) - self.agreement(1, before)
        return {1: moved, -1: -moved}
