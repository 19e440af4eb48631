"""Labels as arrays, the prior, what an estimate says, and its error."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from statistics import stdev
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sbic.engine import SIGN_NAMES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ANSWER = {-1: 0, 1: 1}


@dataclass(frozen=True)
class Labels:
    """Labels in order of arrival; tasks and workers numbered in the order they first appear.

    An answer is the number of a class: its position in `classes`. If these are -1 and 1, `label`
    has the answers in the paper's terms:

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> labels.task_names, labels.worker_names
    (('t1', 't2'), ('ann', 'bob'))
    >>> labels.task.tolist(), labels.worker.tolist(), labels.label.tolist()
    ([0, 1, 0], [0, 0, 1], [1, -1, 1])

    A skip (0) is not a label, though its task is known. If a worker answers a task twice, the first
    answer counts:

    >>> again = Labels.of([("t1", "ann", 1), ("t1", "ann", -1), ("t2", "bob", 0)])
    >>> len(again), again.repeats, again.skips, again.tasks
    (1, 1, 1, 2)
    """

    task: Ints
    worker: Ints
    answer: Ints
    task_names: tuple[str, ...]
    worker_names: tuple[str, ...]
    classes: tuple[str, ...] = SIGN_NAMES
    repeats: int = 0
    skips: int = 0

    @classmethod
    def of(cls, triples: Iterable[tuple[str, str, int]]) -> Self:
        """From labels in the paper's terms: 1, -1, or 0 for a skip."""
        return cls.of_answers(
            ((task, worker, ANSWER[label] if label else None) for task, worker, label in triples),
            SIGN_NAMES,
        )

    @classmethod
    def of_answers(
        cls, triples: Iterable[tuple[str, str, int | None]], classes: tuple[str, ...]
    ) -> Self:
        """Give names numbers, drop the skips (None), keep each worker's first answer to a task.

        >>> pets = [("t1", "ann", 2), ("t1", "bob", None), ("t2", "ann", 0)]
        >>> labels = Labels.of_answers(pets, ("cat", "dog", "bird"))
        >>> labels.answer.tolist(), labels.skips
        ([2, 0], 1)
        """
        tasks: dict[str, int] = {}
        workers: dict[str, int] = {}
        answers: dict[tuple[int, int], int] = {}
        repeats = skips = 0
        for task_name, worker_name, answer in triples:
            task = tasks.setdefault(task_name, len(tasks))
            worker = workers.setdefault(worker_name, len(workers))
            if answer is None:
                skips += 1
            elif (task, worker) in answers:
                repeats += 1
            else:
                answers[task, worker] = answer
        pairs = np.array(list(answers), dtype=np.int64).reshape(-1, 2)
        return cls(
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
            np.fromiter(answers.values(), np.int64, len(answers)),
            tuple(tasks),
            tuple(workers),
            classes,
            repeats,
            skips,
        )

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.task_names)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.worker_names)

    @property
    def are_signs(self) -> bool:
        """Whether the classes are -1 and 1, as most algorithms of the paper need them."""
        return self.classes == SIGN_NAMES

    @cached_property
    def label(self) -> Ints:
        """x of the paper: each answer as 1 or -1."""
        assert self.are_signs, f"the classes are not -1 and 1 but {', '.join(self.classes)}"
        return 2 * self.answer - 1

    def in_order(self, order: Sequence[int] | Ints) -> "Labels":
        """Return the same labels, names and numbers, arriving in another order.

        >>> Labels.of([("t1", "ann", 1), ("t2", "ann", -1)]).in_order([1, 0]).task.tolist()
        [1, 0]
        """
        return replace(
            self, task=self.task[order], worker=self.worker[order], answer=self.answer[order]
        )


# Names to integers, one at a time; `stages.name_table` numbers many at once for the stream.


Name = TypeVar("Name", bound=Hashable)


class Ids(Generic[Name]):
    """Numbers in the order in which names first appear.

    >>> tasks = Ids[str]()
    >>> tasks.number("t1"), tasks.number("t2"), tasks.number("t1")
    (0, 1, 0)
    >>> tasks.names[1], len(tasks), tasks.known("t3")
    ('t2', 2, None)
    """

    def __init__(self) -> None:
        self.names: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self.known = self._numbers.get

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: Name) -> int:
        """Return the number of a name; a new name gets the next number."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def numbers(self, names: Sequence[Name]) -> Ints:
        """Return the numbers of many names at once.

        >>> Ids[str]().numbers(["t1", "t2", "t1"]).tolist()
        [0, 1, 0]
        """
        for name in dict.fromkeys(names):
            self.number(name)
        return np.fromiter(map(self._numbers.__getitem__, names), np.int64, len(names))


# What the algorithms share: the prior they start from and the estimate they return.


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
        """Return the share of wrong predictions; a tie counts half, unknown truth (-1) is left out.

        `truth` has the numbers of classes: 1 stands for +1, 0 for -1.

        >>> Estimate(np.array([2.0, -1.0, 0.0, 9.0])).error(np.array([1, 1, 1, -1]))
        0.5
        """
        known = truth >= 0
        return float(np.mean((1 - self.prediction[known] * (2 * truth[known] - 1)) / 2))


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
        """Return the share of wrong predictions; unknown truth (-1) is left out.

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
    """Return the estimate from log probabilities, up to a term common to all classes.

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


# The error of an algorithm that depends on the order of the labels or on chance.


def shuffled_error(
    algorithm: Algorithm, labels: Labels, prior: Prior, truth: Ints, rng: np.random.Generator
) -> float:
    """Return the error when the same labels arrive in a random order."""
    shuffled = labels.in_order(rng.permutation(len(labels)))
    return algorithm(shuffled, prior, rng).error(truth)


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None for a single value.

    >>> standard_error([0.2, 0.3, 0.4, 0.3]).__round__(4), standard_error([0.2])
    (0.0408, None)
    """
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
