"""How far judges agree, with the truth and with each other, and whether confidence can be believed.

Pure functions of counts. What they are worth on a project is said by `report`.
"""

from functools import lru_cache
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats, Ints
from sbic.infer.intervals import wilson

# One judge and the truth: a table of counts with a row for each true class.


def confusion(truth: Ints, answers: Ints, classes: int, weights: Floats | None = None) -> Floats:
    """How often each answer (column) is given where each class (row) is true.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    counts = np.bincount(truth * classes + answers, weights, classes * classes)
    return counts.astype(np.float64).reshape(classes, classes)


def base_rate(table: Floats) -> float:
    """Return the accuracy of always giving the most frequent true class.

    >>> base_rate(np.array([[20, 5], [10, 15]]))
    0.5
    """
    return float(table.sum(axis=1).max() / table.sum())


def cohen_kappa(table: Floats) -> float | None:
    """Agreement beyond chance: (o - e) / (1 - e), with e of the margins of the table.

    None where chance alone agrees always: there is one class only. Cohen: *A Coefficient of
    Agreement for Nominal Scales*, Educational and Psychological Measurement 1960.

    >>> round(cohen_kappa(np.array([[20, 5], [10, 15]])), 3)
    0.4
    """
    total = table.sum()
    agreement = float(np.trace(table) / total)
    chance = float((table.sum(axis=1) * table.sum(axis=0)).sum() / total**2)
    return (agreement - chance) / (1 - chance) if chance < 1 else None


def sign_test(first: int, second: int) -> float:
    """How probable it is that one of two equally good judges leads by so much (McNemar, exact).

    `first` and `second` count the tasks on which only the one and only the other is right.

    >>> round(sign_test(9, 1), 6)
    0.021484
    """
    trials, least = first + second, min(first, second)
    ways = _log_choose(trials, np.arange(least + 1))
    return min(1.0, 2 * float(np.exp(ways - trials * log(2)).sum()))


def _log_choose(n: int, k: Ints) -> Floats:
    """Return the logarithms of how many ways there are to choose each k of n."""
    logs = _log_factorials(1 << n.bit_length())
    result: Floats = logs[n] - logs[k] - logs[n - k]
    return result


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> Floats:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))


# All judges at once: Krippendorff's alpha.


def coincidences(tasks: Ints, answers: Ints, classes: int, at_once: int = 1 << 22) -> Floats:
    """Krippendorff's coincidence matrix: pairs of labels on one task, each task's as m in all.

    A task with m labels has m (m - 1) ordered pairs, each of which counts 1 / (m - 1).

    >>> coincidences(np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0]), 2).tolist()
    [[1.0, 1.0], [1.0, 2.0]]
    """
    order = np.argsort(tasks, kind="stable")
    numbers, at = np.unique(tasks[order], return_inverse=True)
    given, rows = answers[order], max(1, at_once // classes)
    total = np.zeros((classes, classes))
    for first in range(0, len(numbers), rows):
        some = slice(*np.searchsorted(at, (first, first + rows)))
        here = min(rows, len(numbers) - first)
        counts = np.bincount((at[some] - first) * classes + given[some], minlength=here * classes)
        table = counts.reshape(here, classes).astype(np.float64)
        labels = table.sum(axis=1)
        table, labels = table[labels > 1], labels[labels > 1]
        weighed = table / (labels - 1)[:, None]
        total += weighed.T @ table - np.diag(weighed.sum(axis=0))
    return total


def krippendorff_alpha(pairs: Floats, *, is_ordered: bool = False) -> float | None:
    """Krippendorff's alpha of a coincidence matrix: 1 is agreement, 0 chance.

    Of nominal classes all differ alike; of ordered ones two differ by the square of the labels
    between them, (Σ n_g - (n_c + n_k) / 2)² over g from c to k. None if all labels are one class.
    Krippendorff: *Content Analysis*, chapter 11.

    >>> round(krippendorff_alpha(np.array([[1.0, 1.0], [1.0, 2.0]])), 3)
    0.333
    """
    margins = pairs.sum(axis=1)
    total = margins.sum()
    if total <= 1:
        return None
    if is_ordered:
        middle = margins.cumsum() - margins / 2
        apart = (middle[:, None] - middle) ** 2
    else:
        apart = 1 - np.eye(len(pairs))
    expected = (np.outer(margins, margins) * apart).sum()
    return float(1 - (total - 1) * (pairs * apart).sum() / expected) if expected > 0 else None


# Two judges: what they agree on, and whether their errors go together.


class JudgePairs(NamedTuple):
    """Of each two judges: tasks that both answered, with the same answer; the same of contested.

    `right` is the expected number of tasks on which both give the same right answer, so that
    `same - right` is that of the same wrong answers, and `both - right` that of tasks on which one
    is wrong at least. `wrong` is how often the first is wrong on what both answered, and
    `wrong_together` how often both are. `said` has, for each class, how often the first gives it on
    what both answered; None with more than `MOST_CLASSES`. The counts of parts add up.
    """

    both: Floats
    same: Floats
    contested: Floats
    contested_same: Floats
    right: Floats
    wrong: Floats
    wrong_together: Floats
    said: Floats | None

    def plus(self, other: "JudgePairs") -> "JudgePairs":
        """Return the counts of both parts."""
        said = None if self.said is None or other.said is None else self.said + other.said
        counts = [mine + theirs for mine, theirs in zip(self[:-1], other[:-1], strict=True)]
        return JudgePairs._make((*counts, said))

    @property
    def kappas(self) -> Floats | None:
        """Cohen's kappa of each two; not a number where chance alone agrees always."""
        if self.said is None:
            return None
        both = np.maximum(self.both, 1)
        chance = (self.said * self.said.swapaxes(1, 2)).sum(axis=0) / both**2
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Floats = (self.same / both - chance) / (1 - chance)
        return np.where(chance < 1, result, np.nan)


NOT_GIVEN = -1
MOST_CLASSES = 20  # of tables with a row for each class


def pair_counts(answers: Ints, p: Floats, is_contested: NDArray[np.bool_]) -> JudgePairs:
    """Count all pairs, from a row of answers (or -1) for each task and its probabilities.

    >>> answers, p = np.array([[0, 0, 1], [1, 1, -1]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> found = pair_counts(answers, p, np.array([True, False]))
    >>> found.same[0].tolist(), found.wrong_together[0].tolist(), found.contested[0].tolist()
    ([2.0, 2.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0])
    """
    given, judges, classes = answers != NOT_GIVEN, answers.shape[1], p.shape[1]
    is_given, contested = given.astype(np.float64), is_contested.astype(np.float64)
    right = np.where(given, np.take_along_axis(p, np.maximum(answers, 0), axis=1), 0.0)
    wrong = is_given - right
    same, contested_same, together = (np.zeros((judges, judges)) for _ in range(3))
    said = np.zeros((classes, judges, judges)) if classes <= MOST_CLASSES else None
    tasks, who = np.nonzero(given)
    order = np.argsort(answers[tasks, who], kind="stable")
    ends = np.cumsum(np.bincount(answers[tasks, who], minlength=classes))
    for k, some in enumerate(np.split(order, ends[:-1])):
        rows, place = np.unique(tasks[some], return_inverse=True)
        here = np.zeros((len(rows), judges))
        here[place, who[some]] = 1
        same += here.T @ here
        contested_same += (here * contested[rows, None]).T @ here
        together += (here * p[rows, k, None]).T @ here
        if said is not None:
            said[k] = here.T @ is_given[rows]
    return JudgePairs(
        is_given.T @ is_given,
        same,
        (is_given * contested[:, None]).T @ is_given,
        contested_same,
        together,
        wrong.T @ is_given,
        wrong.T @ wrong,
        said,
    )


def by_chance(tasks: int, first: int, second: int, both: int) -> float:
    """How probable it is that so many of two judges' errors or more fall together by chance.

    Of `tasks` the judges have `first` and `second` wrong, and `both` of these are the same ones
    (Fisher's exact test, one-sided).

    >>> round(by_chance(50, 10, 10, 6), 4)
    0.002
    """
    k = np.arange(max(both, first + second - tasks), min(first, second) + 1)
    ways = _log_choose(first, k) + _log_choose(tasks - first, second - k)
    return min(1.0, float(np.exp(ways - _log_choose(tasks, np.array(second))).sum()))


# Confidence: how often predictions are right that are this sure.


BINS = 10


def bin_of(confidence: Floats) -> Ints:
    """Return the bin of each confidence; that of 1 is the last."""
    bins: Ints = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return bins


def calibration_error(confidence: Floats, is_right: Floats) -> float:
    """ECE: how far confidence and accuracy differ, in bins of equal width.

    Guo, Pleiss, Sun, Weinberger: *On Calibration of Modern Neural Networks*, 2017.

    >>> round(calibration_error(np.array([0.9, 0.9, 0.6]), np.array([1.0, 0.0, 1.0])), 3)
    0.4
    """
    apart = np.abs(np.bincount(bin_of(confidence), confidence - is_right, BINS))
    return float(apart.sum() / len(confidence))


class Bin(NamedTuple):
    """Predictions of one range of confidence: how many, how sure, how many are right of them."""

    low: float
    high: float
    tasks: int
    confidence: float
    right: float
    interval: tuple[float, float]


def reliability(confidence: Floats, is_right: NDArray[np.bool_]) -> list[Bin]:
    """Return the bins of a reliability diagram that have predictions, with 95 % intervals.

    >>> [(each.low, each.tasks, each.right) for each in reliability(
    ...     np.array([0.95, 0.92, 0.55]), np.array([True, False, True]))]
    [(0.5, 1, 1.0), (0.9, 2, 0.5)]
    """
    bins, found = bin_of(confidence), []
    for number in np.unique(bins).tolist():
        here = bins == number
        tasks, right = int(here.sum()), int(is_right[here].sum())
        ends = number / BINS, (number + 1) / BINS
        sure = float(confidence[here].mean())
        found.append(Bin(*ends, tasks, sure, right / tasks, wilson(right, tasks)))
    return found
