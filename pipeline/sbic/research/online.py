"""Algorithms one label at a time: the interface, and the forms of most of them."""

from math import exp, log
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sbic.engine import AlgorithmName
from sbic.engine.compiled import compiled
from sbic.engine.engine import Engine
from sbic.engine.labels import Estimate, Floats, Ints, Prior
from sbic.engine.taking import observe
from sbic.infer.settled import AT_REST
from sbic.research.baselines import ITERATIONS, LEAST_COUNT, SYNTHETIC_ITERATIONS

# The interface of the online algorithms, and the array in which some of them keep their labels.
#
# The compiled algorithms pass over all labels repeatedly, so the labels are kept worker by worker
# in one array: row j holds the answers of worker j, and an answer is one number, 2i + 1 for +1 on
# task i and 2i for -1. A vector with an element for each possible answer (2 for each task) then
# needs neither a sign nor a branch: elements 2i + 1 and 2i belong to the answers +1 and -1 on task
# i.


AnswerNumbers = NDArray[np.int32]


class Online(Protocol):
    """Learns from one label at a time; tasks and workers are numbers."""

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's new score, in the sense of `Estimate.score`."""
        ...

    @property
    def score(self) -> Floats:
        """The score of every task; the smaller its absolute value, the less is known."""
        ...

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        ...


class CrowdSize(NamedTuple):
    """How many tasks and workers there are, and how many labels a worker gives at most."""

    tasks: int
    workers: int
    labels_per_worker: int


class OnlineForm(Protocol):
    """Starts an online algorithm; `rng` is for those that draw at random."""

    def __call__(self, size: CrowdSize, prior: Prior, rng: np.random.Generator) -> Online:
        """Return it without any labels, for a crowd of this size."""
        ...


class AnswerRows(NamedTuple):
    """Each worker's answers in a row, and how many each worker has given."""

    answers: AnswerNumbers
    given: Ints


def no_answers(workers: int, labels_per_worker: int) -> AnswerRows:
    """Empty rows."""
    return AnswerRows(np.zeros((workers, labels_per_worker), np.int32), np.zeros(workers, np.int64))


# Fast SBIC and settled, one label at a time, on the engine.


class EngineOnline:
    """An engine for a crowd of known size; with `settles`, an estimate is made at rest.

    >>> crowd = EngineOnline("fast-sbic", CrowdSize(2, 2, 2), Prior(2, 1))
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(0, 1, 1), 3)
    (0.693, 1.386)
    """

    def __init__(
        self, algorithm: AlgorithmName, size: CrowdSize, prior: Prior, *, settles: bool = False
    ) -> None:
        self._engine = Engine(algorithm, prior=prior)
        self._engine.make_room(size.tasks, size.workers, size.workers * size.labels_per_worker)
        self._state = self._engine.state  # with room for all labels it is never replaced
        self._settles = settles
        self._every = np.arange(size.tasks)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        return observe(task, worker, label > 0, *self._state)

    @property
    def score(self) -> Floats:
        """The log-odds of every task."""
        scores = self._engine.scores(self._every)
        log_odds: Floats = scores[:, 1] - scores[:, 0]
        return log_odds

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        if self._settles:
            self._engine.settle(AT_REST)
        return Estimate(self.score)


def fast_sbic(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start Algorithm 1."""
    return EngineOnline("fast-sbic", size, prior)


def settled(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start settled, which comes to rest before each estimate."""
    return EngineOnline("settled", size, prior, settles=True)


def settled_live(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start settled as it is while labels arrive, never at rest."""
    return EngineOnline("settled", size, prior)


# Majority voting, one label at a time.


class MajorityOnline:
    """MAJ: the score of a task is the sum of its votes, Σ_j x_ij.

    >>> crowd = MajorityOnline(tasks=2)
    >>> crowd.observe(0, 0, 1), crowd.observe(0, 1, 1), crowd.observe(1, 0, -1)
    (1, 2, -1)
    >>> crowd.estimate().prediction.tolist()
    [1, -1]
    """

    def __init__(self, tasks: int) -> None:
        self._balance = [0] * tasks

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's sum of votes."""
        balance = self._balance[task] + label
        self._balance[task] = balance
        return balance

    @property
    def score(self) -> Floats:
        """The sum of the votes on every task."""
        return np.array(self._balance, dtype=np.float64)

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score, is_log_odds=False)


def majority(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MajorityOnline:
    """Start MAJ, which takes no prior."""
    return MajorityOnline(size.tasks)


# KOS, one label at a time: the power iteration of `kos`, from the majority, after every label.


class KOSOnline:
    """Each label changes the score of every task and costs a few passes over all labels so far.

    >>> crowd = KOSOnline(tasks=2, workers=2, labels_per_worker=2)
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(1, 0, -1), 3)
    (1.0, -0.707)
    """

    def __init__(self, tasks: int, workers: int, labels_per_worker: int) -> None:
        self._answers, self._given = no_answers(workers, labels_per_worker)
        self._known_workers = 0
        self._balance = np.zeros(2 * tasks)
        self._support = np.zeros(2 * tasks)
        self._votes = np.zeros(2 * tasks)
        self.score = np.zeros(tasks)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's score."""
        self._known_workers = max(self._known_workers, worker + 1)
        return _iterate(
            task,
            worker,
            label,
            self._answers,
            self._given,
            self._known_workers,
            self._balance,
            self._support,
            self._votes,
            self.score,
        )

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score.copy(), is_log_odds=False)


def kos(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> KOSOnline:
    """Start KOS, which takes no prior."""
    return KOSOnline(*size)


@compiled
def _iterate(
    task: int,
    worker: int,
    label: int,
    answers: AnswerNumbers,
    given: Ints,
    known_workers: int,
    balance: Floats,
    support: Floats,
    votes: Floats,
    score: Floats,
) -> float:
    """Add the label to the majority and iterate from there; the `support` of an answer x is x z_i.

    So few iterations cannot overflow, so the vector is normalised only at the end.
    """
    answers[worker, given[worker]] = 2 * task + (label > 0)
    given[worker] += 1
    balance[2 * task + 1] += label
    balance[2 * task] -= label
    support[:] = balance
    for _ in range(SYNTHETIC_ITERATIONS):
        votes[:] = 0
        for j in range(known_workers):
            weight = 0.0
            for place in range(given[j]):
                weight += support[answers[j, place]]
            for place in range(given[j]):
                votes[answers[j, place]] += weight
        for i in range(len(score)):
            z = votes[2 * i + 1] - votes[2 * i]
            support[2 * i + 1], support[2 * i] = z, -z
    score[:] = support[1::2]
    length = np.sqrt(np.sum(score * score))
    if length > 0:
        score /= length
    return float(score[task])


# AMF and EM, one label at a time: each label continues the iteration where it stopped.
#
# The iteration is that of `amf`, over all labels so far. Its cost is proportional to their number,
# so Appendix B makes 4 iterations after each label, and 50 from scratch once the labels are
# complete.


ITERATIONS_PER_LABEL = 4


class MeanFieldOnline:
    """Mean field in which each worker starts with the counts `right` and `wrong`.

    These are α and β in AMF, α - 1 and β - 1 in EM. The first weight is log(right / wrong).

    >>> crowd = MeanFieldOnline(2, 2, 2, Prior(4, 3), right=4, wrong=3)
    >>> [round(crowd.observe(*label), 3) for label in ((0, 0, 1), (0, 1, 1), (1, 0, -1))]
    [0.288, 0.666, -0.333]
    """

    def __init__(
        self,
        tasks: int,
        workers: int,
        labels_per_worker: int,
        prior: Prior,
        *,
        right: float,
        wrong: float,
        iterations_per_label: int = ITERATIONS_PER_LABEL,
    ) -> None:
        self._prior = prior
        self._right, self._wrong = right, wrong
        self._start = log(right) - log(wrong)
        self._iterations_per_label = iterations_per_label
        self._answers, self._given = no_answers(workers, labels_per_worker)
        self._known_workers = 0
        self._weight = np.full(workers, self._start)
        self._at_answer = np.zeros(2 * tasks)
        self.score = np.full(tasks, prior.log_odds)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        self._known_workers = max(self._known_workers, worker + 1)
        self._answers[worker, self._given[worker]] = 2 * task + (label > 0)
        self._given[worker] += 1
        self._iterate(self._weight, self.score, self._iterations_per_label)
        return float(self.score[task])

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far, by 50 iterations from scratch."""
        log_odds = np.empty_like(self.score)
        self._iterate(np.full_like(self._weight, self._start), log_odds, ITERATIONS)
        return Estimate(log_odds)

    def _iterate(self, weight: Floats, log_odds: Floats, iterations: int) -> None:
        iterate(
            self._answers,
            self._given,
            self._known_workers,
            self._at_answer,
            weight,
            log_odds,
            self._prior.log_odds,
            self._right,
            self._wrong,
            iterations,
        )


def em(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MeanFieldOnline:
    """Start EM."""
    return MeanFieldOnline(*size, prior, right=prior.alpha - 1, wrong=prior.beta - 1)


def amf(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> MeanFieldOnline:
    """Start AMF."""
    return MeanFieldOnline(*size, prior, right=prior.alpha, wrong=prior.beta)


@compiled
def iterate(
    answers: AnswerNumbers,
    given: Ints,
    known_workers: int,
    at_answer: Floats,
    weight: Floats,
    log_odds: Floats,
    prior_log_odds: float,
    right: float,
    wrong: float,
    iterations: int,
) -> None:
    """Alternate between beliefs from the workers' weights and weights from the beliefs.

    `at_answer` holds first the sum of the weights for each answer, then its probability.
    """
    for _ in range(iterations):
        at_answer[:] = 0
        for j in range(known_workers):
            for place in range(given[j]):
                at_answer[answers[j, place]] += weight[j]
        for i in range(len(log_odds)):
            z = prior_log_odds + at_answer[2 * i + 1] - at_answer[2 * i]
            log_odds[i] = z
            tail = exp(-abs(z))
            likely, unlikely = 1 / (1 + tail), tail / (1 + tail)
            at_answer[2 * i + 1] = likely if z >= 0 else unlikely
            at_answer[2 * i] = unlikely if z >= 0 else likely
        for j in range(known_workers):
            agreed = 0.0
            for place in range(given[j]):
                agreed += at_answer[answers[j, place]]
            odds = max(agreed + right, LEAST_COUNT) / max(given[j] - agreed + wrong, LEAST_COUNT)
            weight[j] = log(odds)
