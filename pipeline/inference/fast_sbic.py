"""Fast SBIC (Algorithm 1): each label, as it comes, adds its worker's vote to its task."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.compiled import IS_COMPILED
from pipeline.inference.fast_sbic_compiled import log_odds_of_all
from pipeline.inference.labels import Floats, Labels
from pipeline.inference.one_coin import OneCoin

Task = TypeVar("Task", bound=Hashable)
Worker = TypeVar("Worker", bound=Hashable)

FEW = 16  # labels that are added up faster than they are followed


class FastSBIC(Generic[Task, Worker]):
    """Learns from one label at a time, in the order in which they come.

    A label x of worker j on task i adds a vote to the task's log-odds z (Algorithm 1, lines 5
    and 6; the n labels that j gave before count):

        z_i += x log((c_j + α) / (n_j - c_j + β))        c_j = Σ sig(x_hj z_h)

    The sum is made anew only for a worker with few labels. A prolific one is followed: when z_i
    moves from a to b, every such worker who answered i gets c += sig(x b) - sig(x a). So the
    cost of a label does not depend on how many labels its worker gave before.

    >>> crowd = FastSBIC()
    >>> crowd.observe("t1", "ann", 1)  # the vote, and the task's new log-odds
    (0.6931471805599453, 0.6931471805599453)
    >>> vote, log_odds = crowd.observe("t1", "bob", 1)
    >>> crowd.accuracy("ann") > crowd.accuracy("eve")  # someone agreed with ann; eve is a stranger
    True
    >>> crowd.revert("t1", "bob")
    0.6931471805599453
    """

    def __init__(self, prior: Prior | None = None) -> None:
        self.prior = prior or Prior()
        self.model = OneCoin(self.prior)
        self._start = self.prior.log_odds
        self._beliefs: dict[Task, _Belief[Worker]] = {}
        self._histories: dict[Worker, _History[Worker]] = {}

    def observe(self, task: Task, worker: Worker, label: int) -> tuple[float, float]:
        """Count `label` (1 or -1) and return its vote and the task's log-odds with it."""
        if label != 1 and label != -1:
            raise ValueError(f"a label is 1 or -1, not {label!r}")
        belief = self._beliefs.get(task) or self._new_belief(task)
        if worker in belief.votes:
            raise ValueError(f"worker {worker!r} has answered task {task!r} before")
        history = self._histories.get(worker)
        if history is None:
            history = self._histories[worker] = _History()
        model = self.model
        vote = model.vote(label, history.labels, history.correct())
        log_odds = belief.log_odds + vote
        belief.move(log_odds, model.agreement(1, log_odds))
        belief.votes[worker] = label, vote
        history.add(belief, label)
        return vote, log_odds

    def revert(self, task: Task, worker: Worker) -> float:
        """Take a label back and return the task's log-odds, as if it had never been given.

        The other votes keep the weight they had when they were given. KeyError where the worker
        has not answered the task.
        """
        belief = self._beliefs[task]
        label, _ = belief.votes.pop(worker)
        history = self._histories[worker]
        history.remove(belief, label)
        if history.labels == 0:
            del self._histories[worker]
        return self._replay(belief)

    def set_prior(self, task: Task, q: float) -> float:
        """Let `q` be this task's probability of +1 before any label; return its log-odds."""
        prior = replace(self.prior, q=q).log_odds
        belief = self._beliefs.get(task) or self._new_belief(task)
        belief.prior = prior
        return self._replay(belief)

    def log_odds(self, task: Task) -> float:
        """The task's log-odds of +1."""
        belief = self._beliefs.get(task)
        return self._start if belief is None else belief.log_odds

    def labels(self, worker: Worker) -> int:
        """How many labels the worker has given: n."""
        history = self._histories.get(worker)
        return 0 if history is None else history.labels

    def correct(self, worker: Worker) -> float:
        """How many of them are expected to be right: c."""
        history = self._histories.get(worker)
        return 0.0 if history is None else history.correct()

    def accuracy(self, worker: Worker) -> float:
        """The worker's expected accuracy, from their labels and the prior."""
        return self.model.accuracy(self.labels(worker), self.correct(worker))

    def _new_belief(self, task: Task) -> "_Belief[Worker]":
        belief: _Belief[Worker] = _Belief(self._start, self.model.agreement(1, self._start))
        self._beliefs[task] = belief
        return belief

    def _replay(self, belief: "_Belief[Worker]") -> float:
        # Added up in order again: subtracting a vote would leave its rounding behind.
        log_odds = belief.prior
        for _, vote in belief.votes.values():
            log_odds += vote
        belief.move(log_odds, self.model.agreement(1, log_odds))
        return log_odds


class _Belief(Generic[Worker]):
    """A task: its log-odds, the probability of +1, the votes in order, and who follows it."""

    __slots__ = ("followers", "log_odds", "prior", "votes", "yes")

    def __init__(self, prior: float, yes: float) -> None:
        self.prior = prior
        self.log_odds = prior
        self.yes = yes
        self.votes: dict[Worker, tuple[int, float]] = {}
        self.followers: dict[_History[Worker], int] = {}

    def move(self, log_odds: float, yes: float) -> None:
        """Take new log-odds, and let the c of prolific workers follow."""
        if self.followers:
            rise = yes - self.yes
            for history, label in self.followers.items():
                history.followed += label * rise
        self.log_odds = log_odds
        self.yes = yes


class _History(Generic[Worker]):
    """A worker: how many labels, and the tasks they are on while these are few; then c."""

    __slots__ = ("followed", "is_prolific", "labels", "said_no", "said_yes")

    def __init__(self) -> None:
        self.labels = 0
        self.said_yes: list[_Belief[Worker]] = []
        self.said_no: list[_Belief[Worker]] = []
        self.is_prolific = False
        self.followed = 0.0

    def correct(self) -> float:
        """How many of the labels are expected to be right."""
        if self.is_prolific:
            return self.followed
        total = 0.0
        for belief in self.said_yes:
            total += belief.yes
        for belief in self.said_no:
            total += 1.0 - belief.yes
        return total

    def add(self, belief: _Belief[Worker], label: int) -> None:
        """Count a label on this task, which has it in its log-odds."""
        self.labels += 1
        if self.is_prolific:
            belief.followers[self] = label
            self.followed += belief.yes if label > 0 else 1.0 - belief.yes
        else:
            (self.said_yes if label > 0 else self.said_no).append(belief)
            if self.labels > FEW:
                self._follow()

    def remove(self, belief: _Belief[Worker], label: int) -> None:
        """Undo `add`, while the task still has the label in its log-odds."""
        self.labels -= 1
        if self.is_prolific:
            del belief.followers[self]
            self.followed -= belief.yes if label > 0 else 1.0 - belief.yes
        else:
            (self.said_yes if label > 0 else self.said_no).remove(belief)

    def _follow(self) -> None:
        self.followed = self.correct()
        self.is_prolific = True
        for label, beliefs in (1, self.said_yes), (-1, self.said_no):
            for belief in beliefs:
                belief.followers[self] = label
            beliefs.clear()


def fast_sbic(labels: Labels, prior: Prior, rng: np.random.Generator) -> Estimate:
    """Run Algorithm 1 over `labels` in their order; compiled where numba is installed.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> fast_sbic(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    return Estimate(log_odds_of_all(labels, prior) if IS_COMPILED else one_by_one(labels, prior))


def one_by_one(labels: Labels, prior: Prior) -> Floats:
    """The log-odds of every task after all labels, by the engine that takes one at a time."""
    crowd: FastSBIC[int, int] = FastSBIC(prior)
    triples = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    for task, worker, label in triples:
        crowd.observe(task, worker, label)
    return np.array([crowd.log_odds(task) for task in range(labels.tasks)])
