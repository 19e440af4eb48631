"""Simulated crowds: workers, labels, and which task each gets."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import compiled
from sbic.engine.labels import Ints, Labels, Prior
from sbic.infer.registry import ALGORITHMS
from sbic.policy.policy import AnswerSet, Uncertainty, Uniform
from sbic.research.online import CrowdSize, Online


class Scan:
    """The task with the smallest |score|, ties in a random order drawn from the seed.

    `Uncertainty` keeps tasks sorted, for algorithms in which a label moves one task. In KOS, AMF,
    EM, MC and Sorted SBIC a label moves the scores of all tasks, and scanning them is as cheap as
    reading the changes.

    >>> score = np.array([0.5, -0.2, 0.9])
    >>> policy = Scan(score)
    >>> policy.choose(answers=[]), policy.choose(answers=[1])
    (1, 0)
    >>> score[:] = 1, 2, 3  # the algorithm's own array: changes need not be passed on
    >>> policy.choose(answers=[])
    0
    """

    def __init__(self, score: NDArray[np.float64], seed: int = 0) -> None:
        self._score = score
        self._rng = np.random.default_rng(seed)
        self._tie = self._rng.random(len(score))
        self._is_answered = np.zeros(len(score), np.bool_)

    def choose(self, answers: Collection[int]) -> int | None:
        """Return the first task not in `answers`; None if there is none."""
        is_answered = self._is_answered
        for task in answers:
            is_answered[task] = True
        first = least_certain(self._score, self._tie, is_answered)
        for task in answers:
            is_answered[task] = False
        return first if first >= 0 else None

    def update(self, task: int, labels: int, lead: float) -> None:
        """Draw another tie-breaker for a task that got a label, as in `Policy`."""
        self._tie[task] = self._rng.random()


@compiled
def least_certain(
    score: NDArray[np.float64],
    tie: NDArray[np.float64],
    is_answered: NDArray[np.bool_],
) -> int:
    """Return the task with the smallest |score|, or -1."""
    first, least = -1, np.inf
    for task in range(len(score)):
        key = abs(score[task])
        if key > least or is_answered[task]:
            continue
        if first < 0 or key < least or tie[task] < tie[first]:
            first, least = task, key
    return first


# A simulated crowd (Appendix B of the paper): the order of workers, and their labels.
#
# The accuracy of a worker is drawn from Beta(4, 3), and they give L labels. Whether a label is
# right does not depend on its task, and so is drawn before the task is chosen. The truth of each
# task is drawn too, +1 or -1: in the paper it is always +1, which an algorithm that estimates the
# frequency of the classes would learn.
#
# The paper does not give the order in which workers arrive, and it matters (see `figure1`):
#
#     blocks        each worker gives all their labels in a row, then leaves
#     interleaved   all workers give one label in a random order, then one more in another, ...


PRIOR = Prior(alpha=4, beta=3)  # the distribution of accuracies, known to the algorithms
ARRIVALS = ("blocks", "interleaved")


@dataclass(frozen=True)
class SimulatedCrowd:
    """The truth of each task, and for each label its worker and whether it is right (1 or -1)."""

    tasks: int
    workers: int
    labels_per_worker: int
    worker: Ints
    right: Ints
    truth: Ints


def draw_crowd(
    tasks: int,
    labels_per_task: int,
    labels_per_worker: int,
    arrival: str,
    rng: np.random.Generator,
) -> SimulatedCrowd:
    """Draw as many workers as needed for `labels_per_task` on average; the last may give fewer.

    >>> crowd = draw_crowd(4, 2, 3, "blocks", np.random.default_rng(1))
    >>> crowd.worker.tolist(), len(crowd.right)
    ([0, 0, 0, 1, 1, 1, 2, 2], 8)
    """
    total = tasks * labels_per_task
    workers = -(-total // labels_per_worker)
    worker = arrivals(workers, labels_per_worker, arrival, rng)[:total]
    accuracy = rng.beta(PRIOR.alpha, PRIOR.beta, workers)
    right = np.where(rng.random(total) < accuracy[worker], 1, -1)
    truth = rng.choice([-1, 1], tasks)
    return SimulatedCrowd(tasks, workers, labels_per_worker, worker, right, truth)


def arrivals(workers: int, labels_per_worker: int, arrival: str, rng: np.random.Generator) -> Ints:
    """Return the worker who gives each label."""
    if arrival == "blocks":
        return np.repeat(np.arange(workers), labels_per_worker)
    return np.concatenate([rng.permutation(workers) for _ in range(labels_per_worker)])


# Simulates a crowd: a worker gets a task from the policy, and their label is counted.


Observe = Callable[[int, int, int], float]


class Sampling(Protocol):
    """The part of a policy that a simulation uses."""

    def choose(self, answers: AnswerSet) -> int | None:
        """Return the task for a worker who has answered these."""
        ...

    def update(self, task: int, labels: int, lead: float) -> None:
        """Update the number of labels and the |score| of a task."""
        ...


class SimulatedRun:
    """One run: each label is counted by `observe`, which returns the new score of its task."""

    def __init__(self, crowd: SimulatedCrowd, policy: Sampling, observe: Observe) -> None:
        self._crowd = crowd
        self._policy = policy
        self._observe = observe
        self._answered = [AnswerSet() for _ in range(crowd.workers)]
        self._labels_of = [0] * crowd.tasks
        self._chosen: list[int] = []
        self._truth: list[int] = crowd.truth.tolist()
        for task in range(crowd.tasks):
            policy.update(task, 0, abs(PRIOR.log_odds))

    def advance(self, until: int) -> None:
        """Continue until `until` labels have been given in total."""
        choose, observe, update = self._policy.choose, self._observe, self._policy.update
        labels_of, chosen, truth = self._labels_of, self._chosen, self._truth
        coming = slice(len(chosen), until)
        workers, right = self._crowd.worker[coming].tolist(), self._crowd.right[coming].tolist()
        for worker, is_right in zip(workers, right, strict=True):
            answered = self._answered[worker]
            task = choose(answered)
            assert task is not None, "a worker gives no more labels than there are tasks"
            answered.add(task)
            chosen.append(task)
            labels_of[task] += 1
            update(task, labels_of[task], abs(observe(task, worker, is_right * truth[task])))

    def labels(self) -> Labels:
        """All labels so far, in order."""
        given = len(self._chosen)
        task = np.array(self._chosen, dtype=np.int64)
        label = self._crowd.right[:given] * self._crowd.truth[task]
        return Labels(
            task,
            self._crowd.worker[:given],
            (label + 1) // 2,
            tuple(map(str, range(self._crowd.tasks))),
            tuple(map(str, range(self._crowd.workers))),
        )


def uniform_run(crowd: SimulatedCrowd, rng: np.random.Generator) -> SimulatedRun:
    """Return a simulation that chooses tasks uniformly, and only collects labels."""
    policy = Uniform(range(crowd.tasks), int(rng.integers(2**32)))
    return SimulatedRun(crowd, policy, lambda task, worker, label: 0.0)


def uncertainty_run(
    name: str, crowd: SimulatedCrowd, rng: np.random.Generator
) -> tuple[SimulatedRun, Online]:
    """Choose tasks by what the algorithm of this name makes of the labels so far."""
    size = CrowdSize(crowd.tasks, crowd.workers, crowd.labels_per_worker)
    algorithm = ALGORITHMS[name].load_online()(size, PRIOR, rng)
    seed = int(rng.integers(2**32))
    policy: Sampling
    if ALGORITHMS[name].moves_one_task:
        policy = Uncertainty(range(crowd.tasks), seed)
    else:
        policy = Scan(algorithm.score, seed)
    return SimulatedRun(crowd, policy, algorithm.observe), algorithm
