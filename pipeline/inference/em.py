"""Expectation maximisation: mean field with the mode of a worker's accuracy instead of its mean.

Dawid, Skene: *Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm*,
1979, in the one-coin form of Appendix B of the paper: AMF with α - 1 and β - 1, since the mode of
Beta(a, b) is (a - 1) / (a + b - 2).
"""

from math import log

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.amf import ITERATIONS, mean_field
from pipeline.inference.labels import Labels


def em(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = ITERATIONS
) -> Estimate:
    """EM of Section 2.3, from the prior's mode, or its mean where that mode is 0 or 1.

    The generic prior (2, 1) is such a case: its mode is 1 and the start is 2/3.

    >>> pair = Labels.of([("t1", "ann", 1), ("t1", "bob", 1)])
    >>> em(pair, Prior(4, 3), np.random.default_rng(), iterations=1).score.round(3).tolist()
    [0.811]
    """
    right, wrong = prior.alpha - 1, prior.beta - 1
    a, b = (right, wrong) if min(right, wrong) > 0 else (prior.alpha, prior.beta)
    start = log(a) - log(b)
    return Estimate(mean_field(labels, prior, right, wrong, start, iterations))
