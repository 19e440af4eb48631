"""Fast SBIC (Algorithm 1): each label, as it arrives, adds its worker's vote to its task."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sbic.engine.engine import Engine
from sbic.engine.labels import AnyEstimate, Labels, Prior, estimate_from_logs
from sbic.infer.crowd import NamedCrowd, Task, Worker


class FastSBIC(NamedCrowd[Task, Worker, int]):
    """Learns from labels in the order in which they come; two classes, -1 and 1 unless others come.

    >>> FastSBIC().fit_predict([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "bob", -1)])
    {'t1': 1, 't2': -1}

    A label x of worker j on task i adds a vote to the task's log-odds z (Algorithm 1, lines 5
    and 6; n_j and c_j count the labels that j gave before):

        z_i += x log((c_j + α) / (n_j - c_j + β))        c_j = Σ sig(x_hj z_h)

    The sum is not recomputed for each label: when z_i moves from a to b, every worker who answered
    i gets c += sig(x b) - sig(x a). So the cost of a label does not depend on how many labels its
    worker gave before.

    >>> crowd = FastSBIC()
    >>> crowd.observe("t1", "ann", 1)  # the vote, and the task's new log-odds
    (0.6931471805599453, 0.6931471805599453)
    >>> vote, log_odds = crowd.observe("t1", "bob", 1)
    >>> crowd.accuracy("ann") > crowd.accuracy("eve")  # someone agreed with ann; eve is new
    True
    >>> crowd.revert("t1", "bob")
    0.6931471805599453
    >>> crowd.probabilities("t1")[1]
    0.6666666666666666
    """

    def __init__(self, prior: Prior | None = None, *, classes: Sequence[Any] | None = None) -> None:
        self.prior = prior
        super().__init__(classes)

    def _new_engine(self, classes: int) -> Engine:
        return Engine("fast-sbic", classes=classes, prior=self.prior)

    def observe(self, task: Task, worker: Worker, label: int) -> tuple[float, float]:
        """Count `label` (1 or -1); return its vote and the task's new log-odds."""
        vote = self._observe(task, worker, label)
        return vote, self.log_odds(task)

    def revert(self, task: Task, worker: Worker) -> float:
        """Take a label back and return the task's log-odds without it.

        The other votes keep the weight that they had on arrival. KeyError if the worker has not
        answered the task.
        """
        return self._engine.log_odds(self._revert(task, worker))

    def set_prior(self, task: Task, q: float) -> float:
        """Set this task's probability of +1 before any label; return its log-odds."""
        Prior(q=q)  # refuses anything but a probability
        number = self._tasks.number(task)
        self._engine.set_prior(number, (1 - q, q))
        return self._engine.log_odds(number)

    def log_odds(self, task: Task) -> float:
        """Return the task's log-odds of +1."""
        known = self._tasks.known(task)
        return self._engine.prior.log_odds if known is None else self._engine.log_odds(known)

    def labels(self, worker: Worker) -> int:
        """How many labels the worker has given: n."""
        return self.worker(worker).labels

    def correct(self, worker: Worker) -> float:
        """How many of them are expected to be right: c."""
        return self.worker(worker).correct

    def accuracy(self, worker: Worker) -> float:
        """Return the worker's expected accuracy, from their labels and the prior."""
        return self.worker(worker).accuracy


def fast_sbic(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """Run Algorithm 1 over `labels` in their order.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> fast_sbic(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    return estimate_of(fitted(labels, prior), labels)


def fitted(labels: Labels, prior: Prior) -> Engine:
    """Return an engine that has taken the labels in their order."""
    engine = Engine("fast-sbic", prior=prior)
    engine.take(labels.task, labels.worker, labels.answer)
    return engine


def estimate_of(engine: Engine, labels: Labels) -> AnyEstimate:
    """Return the engine's estimate of each task."""
    return estimate_from_logs(labels, engine.scores(np.arange(labels.tasks)))
