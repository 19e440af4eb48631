"""Settled: weighs every label by the current estimate of its worker; any number of classes.

The formulas are in `engine.settled`. A label updates its task at once. When all tasks are then
recomputed until no probability moves, the beliefs depend on the labels alone, not on their order.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from sbic.engine.engine import ClassPrior, Engine
from sbic.engine.labels import AnyEstimate, ClassEstimate, Labels, Prior, estimate_from_logs
from sbic.infer.crowd import Class, NamedCrowd, Task, Worker

AT_REST = 1e-9  # at rest, no probability moves by more than this in a sweep


class Settled(NamedCrowd[Task, Worker, Class]):
    """Learns from one label at a time; `settle` removes the influence of their order.

    >>> crowd = Settled(classes=("cat", "dog", "bird"))
    >>> round(crowd.observe("t1", "ann", "bird")["bird"], 6)
    0.583333
    >>> for worker, label in ("bob", "bird"), ("cy", "cat"):
    ...     now = crowd.observe("t1", worker, label)
    >>> sweeps = crowd.settle()
    >>> max(crowd.probabilities("t1"), key=crowd.probabilities("t1").get)
    'bird'
    >>> crowd.worker("ann").theta > crowd.worker("cy").theta
    True
    """

    def __init__(
        self,
        classes: Sequence[Class] = (-1, 1),  # type: ignore[assignment]
        *,
        prior: Prior | None = None,
        class_prior: ClassPrior = "learned",
    ) -> None:
        engine = Engine("settled", classes=len(classes), prior=prior, class_prior=class_prior)
        super().__init__(engine, classes)

    def observe(self, task: Task, worker: Worker, label: Class) -> dict[Class, float]:
        """Count a label and return the task's new probability of each class."""
        self._observe(task, worker, label)
        return self.probabilities(task)

    def revert(self, task: Task, worker: Worker) -> dict[Class, float]:
        """Take a label back; after `settle` no trace of it is left.

        KeyError if the worker has not answered the task.
        """
        self._revert(task, worker)
        return self.probabilities(task)

    def set_prior(self, task: Task, prior: Mapping[Class, float] | None) -> None:
        """Set a task's probabilities before any label; None restores the class prior."""
        given = None if prior is None else [prior[name] for name in self.classes]
        self._engine.set_prior(self._tasks.number(task), given)


def settled(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """The beliefs at rest, with a learned class prior: `prior.q` is not used.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> settled(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    engine = fitted(labels, prior)
    engine.settle(AT_REST)
    return estimate_of(engine, labels)


def settled_live(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """The beliefs as labels arrive, each updating its own task only."""
    return estimate_of(fitted(labels, prior), labels)


def fitted(labels: Labels, prior: Prior, class_prior: ClassPrior = "learned") -> Engine:
    """An engine that has taken the labels in their order."""
    classes = max(2, len(labels.classes))  # with a single class there is nothing to estimate
    engine = Engine("settled", classes=classes, prior=prior, class_prior=class_prior)
    engine.take(labels.task, labels.worker, labels.answer)
    return engine


def estimate_of(engine: Engine, labels: Labels) -> AnyEstimate:
    """The engine's estimate of each task."""
    scores = engine.scores(np.arange(labels.tasks))
    if len(labels.classes) == 1:
        return ClassEstimate(np.ones((labels.tasks, 1)))
    return estimate_from_logs(labels, scores)
