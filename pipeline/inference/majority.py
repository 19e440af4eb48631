"""Majority voting: every label counts the same."""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels


def majority(labels: Labels, prior: Prior, rng: np.random.Generator) -> Estimate:
    """MAJ of Section 2.3: ŷ_i = sign Σ_j x_ij. Takes no prior; a tie stays a tie (score 0).

    >>> three = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t1", "cy", -1)])
    >>> majority(three, Prior(), np.random.default_rng()).score.tolist()
    [1.0]
    """
    return Estimate(vote_balance(labels), is_log_odds=False)


def vote_balance(labels: Labels) -> Floats:
    """Σ_j x_ij for each task i."""
    return summed(labels.task, labels.label, labels.tasks)
