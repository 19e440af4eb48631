"""What the algorithms share: the prior they start from and the estimate they return."""

from dataclasses import dataclass
from math import log
from typing import Protocol

import numpy as np

from pipeline.inference.labels import Floats, Ints, Labels


@dataclass(frozen=True)
class Prior:
    """θ of the paper: worker accuracy ~ Beta(alpha, beta), and q, the probability of +1.

    >>> Prior().log_odds
    0.0
    """

    alpha: float = 2.0
    beta: float = 1.0
    q: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.alpha < float("inf") and 0 < self.beta < float("inf")):
            raise ValueError(
                f"alpha and beta must be positive numbers, not {self.alpha:g} and {self.beta:g}"
            )
        if not 0 < self.q < 1:
            raise ValueError(f"the prior of +1 must be between 0 and 1, not {self.q:g}")

    @property
    def log_odds(self) -> float:
        """Log-odds of a task before any label (Algorithm 1, line 1)."""
        return log(self.q / (1 - self.q))


@dataclass(frozen=True)
class Estimate:
    """An algorithm's estimate of each task, for the classes -1 and 1.

    `score` is positive where +1 is predicted, negative where -1 is predicted and 0 for a tie. With
    `is_log_odds` it is the log-odds of +1; otherwise (majority, KOS, TE) only its sign and rank are
    meaningful.
    """

    score: Floats
    is_log_odds: bool = True

    @property
    def probability(self) -> Floats | None:
        """The probability of +1 for each task, if the algorithm computes one."""
        return sigmoid(self.score) if self.is_log_odds else None

    @property
    def prediction(self) -> Ints:
        """1, -1, or 0 for a tie."""
        return np.sign(self.score).astype(np.int64)

    def error(self, truth: Ints) -> float:
        """The share of wrong predictions; a tie counts half, unknown truth (0) is left out.

        >>> Estimate(np.array([2.0, -1.0, 0.0, 9.0])).error(np.array([1, 1, 1, 0]))
        0.5
        """
        known = truth != 0
        return float(np.mean((1 - self.prediction[known] * truth[known]) / 2))


TIE = -1


@dataclass(frozen=True)
class ClassEstimate:
    """An algorithm's estimate of each task, where classes have names.

    `score` has a row for each task and a column for each class: probabilities with
    `is_probability`, otherwise (majority) votes.
    """

    score: Floats
    is_probability: bool = True

    @property
    def prediction(self) -> Ints:
        """The number of the class with the highest score; TIE where several share it.

        >>> ClassEstimate(np.array([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0]])).prediction.tolist()
        [1, -1]
        """
        best = self.score.max(axis=1, keepdims=True)
        is_tie = (self.score == best).sum(axis=1) > 1
        return np.where(is_tie, TIE, self.score.argmax(axis=1))

    @property
    def confidence(self) -> Floats:
        """The probability of the most probable class, or its share of the votes."""
        total = self.score.sum(axis=1)
        best: Floats = self.score.max(axis=1) / np.where(total > 0, total, 1.0)
        return best

    def error(self, truth: Ints) -> float:
        """The share of wrong predictions; unknown truth (-1) is left out.

        In a tie between m classes each counts with probability 1/m, as if one were drawn. A truth
        that is none of the classes has a number beyond them, and every prediction is wrong.

        >>> score = np.array([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
        >>> ClassEstimate(score).error(np.array([1, 0, -1]))
        0.25
        >>> ClassEstimate(score).error(np.array([1, 3, -1]))
        0.5
        """
        known = truth >= 0
        score = self.score[known]
        is_best = score == score.max(axis=1, keepdims=True)
        is_right = is_best & (truth[known, np.newaxis] == np.arange(score.shape[1]))
        right = is_right.sum(axis=1) / is_best.sum(axis=1)
        return float(np.mean(1 - right))


AnyEstimate = Estimate | ClassEstimate
"""An `Estimate` of labels that are -1 and 1, a `ClassEstimate` of any others."""


class Algorithm(Protocol):
    """Estimates tasks from labels; `rng` is for algorithms that draw at random."""

    def __call__(self, labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
        """Estimate every task of `labels`."""
        ...


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), for any x without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    tail = np.exp(-np.abs(x))
    result: Floats = np.where(x >= 0, 1 / (1 + tail), tail / (1 + tail))
    return result


def softmax(log_score: Floats) -> Floats:
    """Each row as probabilities, from logarithms up to a common term, without overflow.

    >>> softmax(np.array([[1000.0, 1000.0], [-2000.0, 0.0]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    weight = np.exp(log_score - log_score.max(axis=1, keepdims=True))
    result: Floats = weight / weight.sum(axis=1, keepdims=True)
    return result


def estimate_from_logs(labels: Labels, log_score: Floats) -> AnyEstimate:
    """The estimate from log probabilities, up to a term common to all classes.

    `log_score` has a row for each task and a column for each class.

    >>> signs = Labels.of([("t1", "ann", 1)])
    >>> estimate_from_logs(signs, np.array([[-3.0, -1.0]])).score.tolist()
    [2.0]
    >>> pets = Labels.of_answers([("t1", "ann", 0)], ("cat", "dog"))
    >>> estimate_from_logs(pets, np.log([[6.0, 2.0]])).score.round(9).tolist()
    [[0.75, 0.25]]
    """
    if labels.are_signs:
        return Estimate(log_score[:, 1] - log_score[:, 0])
    return ClassEstimate(softmax(log_score))
