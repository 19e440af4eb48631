"""Majority voting and Dawid-Skene: what every other algorithm is compared with."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import (
    AnyEstimate,
    ClassEstimate,
    Estimate,
    Floats,
    Ints,
    Labels,
    Prior,
    estimate_from_logs,
    softmax,
)
from sbic.infer.aggregator import Aggregator


def summed(key: Ints, values: Floats | Ints | NDArray[np.bool_], groups: int) -> Floats:
    """Return the sum of the values of each group; 0 for an empty group.

    >>> summed(np.array([1, 0, 1]), np.array([0.5, 2.0, 0.25]), 3).tolist()
    [2.0, 0.75, 0.0]
    """
    sums: Floats = np.bincount(key, values, groups)  # type: ignore[assignment]
    return sums


def summed_rows(key: Ints, rows: Floats, groups: int) -> Floats:
    """Return the sum of the rows of each group; zeros for an empty group.

    >>> summed_rows(np.array([1, 0, 1]), np.array([[1.0, 2.0], [0.5, 0.0], [3.0, 4.0]]), 2).tolist()
    [[0.5, 0.0], [4.0, 6.0]]
    """
    return np.stack([summed(key, column, groups) for column in rows.T], axis=1)


def grouped(key: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return the positions of labels group by group, where each starts, and the last ends.

    >>> order, start = grouped(np.array([1, 0, 1]), 2)
    >>> order.tolist(), start.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    start = np.concatenate(([0], np.cumsum(np.bincount(key, minlength=groups))))
    return np.argsort(key, kind="stable"), start


def ranges(start: Ints, size: Ints) -> Ints:
    """Return the integers start, start + 1, ... of each range, one range after the other.

    >>> ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    before = np.cumsum(size) - size
    every: Ints = np.arange(size.sum()) + np.repeat(start - before, size)
    return every


# Majority voting: every label has the same weight.


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


# Dawid-Skene: a confusion matrix for each worker, by expectation maximisation.
#
# The truth of a task is class k with probability p_k, and worker j answers a task of class k with
# class l with probability π_jkl. With μ_ik the probability that task i is of class k, s = 0.01 the
# smoothing and x_ij the answer of worker j to task i, every iteration sets
#
#     p_k   ∝ s + Σ_i μ_ik                        over the tasks that have labels
#     π_jkl ∝ s + Σ_{i: x_ij = l} μ_ik            for each k, over l
#     μ_ik  ∝ p_k Π_j π_jkl with l = x_ij         for each i, over k
#
# over the whole data set; the first μ are the shares of the votes. Dawid, Skene: *Maximum
# Likelihood Estimation of Observer Error-Rates Using the EM Algorithm*, Applied Statistics 28(1),
# 1979, https://doi.org/10.2307/2346806. `em` is the form with one accuracy for each worker.


SMOOTHING = 0.01
TOLERANCE = 1e-6
ITERATIONS = 200


def dawid_skene(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = ITERATIONS
) -> AnyEstimate:
    """EM until no probability changes by TOLERANCE, or for this many iterations.

    The prior of the classes is estimated too, and is the estimate of a task without labels;
    `prior.q` is used only if there are no labels at all.

    >>> names = ("cat", "dog", "bird")
    >>> answers = [(f"t{i}", who, i % 3) for i in range(9) for who in ("ann", "bob")]
    >>> answers += [(f"t{i}", "cy", (i + 1) % 3) for i in range(9)]  # cy mixes up the names
    >>> labels = Labels.of_answers([*answers, ("new", "cy", 0)], names)
    >>> estimate = dawid_skene(labels, Prior(), np.random.default_rng())
    >>> [names[number] for number in estimate.prediction[[0, 1, 2, 9]]]
    ['cat', 'dog', 'bird', 'bird']
    """
    if len(labels) == 0:
        return estimate_from_logs(labels, without_labels(labels, prior))
    step = Step(labels)
    probability = vote_shares(labels)
    for _ in range(iterations):
        before, log_score = probability, step.log_score(probability)
        probability = softmax(log_score)
        if np.abs(probability - before).max() < TOLERANCE:
            break
    return estimate_from_logs(labels, log_score)


class Step:
    """One iteration of EM on given labels.

    Each confusion matrix is stored only for the answers that the worker gave, so that memory grows
    with labels times classes, not with workers times classes squared.
    """

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._has_labels = np.bincount(labels.task, minlength=labels.tasks) > 0
        classes = len(labels.classes)
        columns, self._column = np.unique(
            labels.worker * classes + labels.answer, return_inverse=True
        )
        self._worker_of_column = columns // classes

    def log_score(self, probability: Floats) -> Floats:
        """Log p_k + Σ_j log π_jkl of each task and class, with p and π from these μ."""
        return self.joined(self.log_prior(probability), self.log_confusion(probability))

    def joined(self, log_prior: Floats, log_confusion: Floats) -> Floats:
        """Log p_k + Σ_j log π_jkl of each task and class."""
        evidence = summed_rows(self.labels.task, log_confusion[self._column], self.labels.tasks)
        log_score: Floats = log_prior + evidence
        return log_score

    def log_prior(self, probability: Floats) -> Floats:
        """Log p_k; not divided by the number of tasks, which is the same for every class."""
        log_prior: Floats = np.log(probability[self._has_labels].sum(axis=0) + SMOOTHING)
        return log_prior

    def log_confusion(self, probability: Floats) -> Floats:
        """Log π_jkl with a row for each worker j and answer l, a column for each class k."""
        labels = self.labels
        count = self._counts(probability)
        total = summed_rows(labels.worker, probability[labels.task], labels.workers)
        log_total = np.log(total + SMOOTHING * len(labels.classes))
        log_confusion: Floats = np.log(count + SMOOTHING) - log_total[self._worker_of_column]
        return log_confusion

    def _counts(self, probability: Floats) -> Floats:
        """Σ μ_ik over the tasks i that the worker gave the answer, for each row of π."""
        rows = probability[self.labels.task]
        return summed_rows(self._column, rows, len(self._worker_of_column))


LEAST = 1e-10  # of a sum, in crowd-kit


class CrowdKitStep(Step):
    """As crowd-kit has it: no smoothing, but a floor, and π over the answers that a worker gave."""

    def log_prior(self, probability: Floats) -> Floats:
        """Log p_k."""
        log_prior: Floats = np.log(np.maximum(probability[self._has_labels].mean(axis=0), LEAST))
        return log_prior

    def log_confusion(self, probability: Floats) -> Floats:
        """Log π_jkl with a row for each worker j and answer l, a column for each class k."""
        count = np.maximum(self._counts(probability), LEAST)
        total = summed_rows(self._worker_of_column, count, self.labels.workers)
        log_confusion: Floats = np.log(count) - np.log(total)[self._worker_of_column]
        return log_confusion

    def bound(self, probability: Floats, log_prior: Floats, log_confusion: Floats) -> float:
        """Return the evidence lower bound of a label, which crowd-kit stops by."""
        told = probability[self.labels.task] * (log_confusion[self._column] + log_prior)
        sure = np.maximum(probability[self._has_labels], LEAST)
        return float((told.sum() - (np.log(sure) * sure).sum()) / len(self.labels))


def vote_shares(labels: Labels) -> Floats:
    """Return the share of each class in the labels of each task; 0 for a task without labels.

    >>> vote_shares(Labels.of([("t1", "ann", 1), ("t1", "bob", -1), ("t2", "bob", 1)])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    count = votes(labels)
    shares: Floats = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    return shares


def without_labels(labels: Labels, prior: Prior) -> Floats:
    """Each task at the prior: q for +1, or all classes equally probable."""
    classes = [1 - prior.q, prior.q] if labels.are_signs else np.ones(len(labels.classes))
    return np.tile(np.log(classes), (labels.tasks, 1))


# The same for data frames, as crowd-kit has them.


class BatchAggregator(Aggregator):
    """The base of algorithms that compute all anew from all labels when there are more."""

    def _begin(self, classes: int) -> None:
        none = np.empty(0, np.int64)
        self._columns = none, none, none
        self._known: dict[int, int] = {}
        self._rows: Floats | None = None

    def _take(self, tasks: Ints, workers: Ints, answers: Ints) -> None:
        more = zip(self._columns, (tasks, workers, answers), strict=True)
        task, worker, answer = (np.concatenate(columns) for columns in more)
        _, first = np.unique(task * max(1, len(self._workers)) + worker, return_index=True)
        first.sort()
        self._columns = task[first], worker[first], answer[first]
        self._rows = None

    def _know(self, task: int, answer: int | None) -> None:
        self._known.pop(task, None)
        if answer is not None:
            self._known[task] = answer
        self._rows = None

    def _rest(self) -> None:
        if self._rows is None:
            task, worker, answer = self._columns
            names = tuple(self._tasks.names), tuple(self._workers.names)
            labels = Labels(task, worker, answer, *names, tuple(map(str, self.classes_)))
            self._rows = self._estimate(labels) if len(labels) else self._told(vote_shares(labels))

    @abstractmethod
    def _estimate(self, labels: Labels) -> Floats:
        """Get the probability of each class, a row for each task; any for a task without labels."""

    def _told(self, rows: Floats) -> Floats:
        """Return the rows, with those of gold tasks certain."""
        tasks, answers = [*self._known], [*self._known.values()]
        rows[tasks] = 0.0
        rows[tasks, answers] = 1.0
        return rows

    def _beliefs(self, tasks: Ints) -> Floats:
        self._rest()
        assert self._rows is not None
        prior = np.full((len(self._tasks), len(self.classes_)), 1 / len(self.classes_))
        told = np.flatnonzero(self._rows.sum(axis=1) > 0)
        prior[told] = self._rows[told]
        return prior[tasks]

    def _counted(self, tasks: Ints) -> Ints:
        return np.bincount(self._columns[0], minlength=len(self._tasks))[tasks]

    def _golds(self, tasks: Ints) -> Ints:
        return np.array([self._known.get(task, -1) for task in tasks.tolist()], np.int64)

    def _right(self, rows: Floats) -> Floats:
        """How probably each label is right."""
        task, _, answer = self._columns
        return np.array(rows[task, answer])

    def _qualities(self, workers: Ints) -> dict[str, Floats | Ints]:
        _, worker, _ = self._columns
        given = np.bincount(worker, minlength=len(self._workers))
        rows = self._beliefs(np.arange(len(self._tasks)))
        right = summed(worker, self._right(rows), len(self._workers))
        accuracy = right / np.maximum(given, 1)
        return {"labels": given[workers], "correct": right[workers], "accuracy": accuracy[workers]}


class MajorityVote(BatchAggregator):
    """The class with the most votes; of several, the first of `classes_`.

    >>> MajorityVote().fit_predict([("t1", "ann", 2), ("t1", "bob", 2), ("t1", "cy", 0)])
    {'t1': 2}

    A probability is a share of the votes, and a worker's accuracy the share of labels that agree
    with the majority. It is the majority vote of crowd-kit without weights.
    """

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        super().__init__(classes)

    def _estimate(self, labels: Labels) -> Floats:
        return self._told(vote_shares(labels))

    def _right(self, rows: Floats) -> Floats:
        task, _, answer = self._columns
        return np.array(rows.argmax(axis=1)[task] == answer, np.float64)


class DawidSkene(BatchAggregator):
    """A confusion matrix for each worker, by expectation maximisation.

    >>> rows = [(f"t{i}", who, "ab"[i % 2]) for i in range(6) for who in ("ann", "bob")]
    >>> rows += [(f"t{i}", "cy", "ba"[i % 2]) for i in range(7)]  # cy mixes up the names
    >>> DawidSkene(n_iter=100).fit_predict(rows)["t6"]
    'a'

    The numbers are those of crowd-kit, to rounding: EM from the shares of the votes, for `n_iter`
    iterations at most or until the evidence lower bound of a label gains less than `tol`. The
    algorithm `dawid-skene` of `sbic infer` smooths counts instead, and stops where nothing changes.
    """

    def __init__(
        self, n_iter: int = 100, tol: float = 1e-5, *, classes: Sequence[Any] | None = None
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        super().__init__(classes)

    def _estimate(self, labels: Labels) -> Floats:
        step = CrowdKitStep(labels)
        rows, before = self._told(vote_shares(labels)), -np.inf
        now = step.log_prior(rows), step.log_confusion(rows)
        for _ in range(self.n_iter):
            rows = self._told(softmax(step.joined(*now)))
            now = step.log_prior(rows), step.log_confusion(rows)
            bound = step.bound(rows, *now)
            if bound - before < self.tol:
                break
            before = bound
        return rows
