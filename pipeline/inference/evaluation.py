"""The error of an algorithm that depends on the order of the labels or on chance."""

from collections.abc import Sequence
from statistics import stdev

import numpy as np

from pipeline.inference.algorithm import Algorithm, Prior
from pipeline.inference.labels import Ints, Labels


def shuffled_error(
    algorithm: Algorithm, labels: Labels, prior: Prior, truth: Ints, rng: np.random.Generator
) -> float:
    """The error when the same labels arrive in a random order."""
    shuffled = labels.in_order(rng.permutation(len(labels)))
    return algorithm(shuffled, prior, rng).error(truth)


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean; None for a single value.

    >>> standard_error([0.2, 0.3, 0.4, 0.3]).__round__(4), standard_error([0.2])
    (0.0408, None)
    """
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
