"""Majority voting: every label has the same weight."""

import numpy as np

from pipeline.inference.algorithm import AnyEstimate, ClassEstimate, Estimate, Prior
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels


def majority(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """MAJ of Section 2.3: ŷ_i = sign Σ_j x_ij. It uses no prior; a tie stays a tie (score 0).

    >>> three = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t1", "cy", -1)])
    >>> majority(three, Prior(), np.random.default_rng()).score.tolist()
    [1.0]

    For other classes the score is the number of votes for each:

    >>> pets = [("t1", "ann", 2), ("t1", "bob", 2), ("t1", "cy", 0)]
    >>> three = Labels.of_answers(pets, ("cat", "dog", "bird"))
    >>> majority(three, Prior(), np.random.default_rng()).score.tolist()
    [[1.0, 0.0, 2.0]]
    """
    if labels.are_signs:
        return Estimate(vote_balance(labels), is_log_odds=False)
    return ClassEstimate(votes(labels), is_probability=False)


def vote_balance(labels: Labels) -> Floats:
    """Σ_j x_ij for each task i."""
    return summed(labels.task, labels.label, labels.tasks)


def votes(labels: Labels) -> Floats:
    """How many workers gave each task each class: a row for each task."""
    classes = len(labels.classes)
    counts = np.bincount(labels.task * classes + labels.answer, minlength=labels.tasks * classes)
    return counts.reshape(labels.tasks, classes).astype(np.float64)
