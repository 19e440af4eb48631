"""Settled: weighs every label by the current estimate of its worker; any number of classes.

The formulas are in `engine.formulas` and `engine.outside`. A label updates its task at once. When
all tasks are then recomputed until no probability moves, the beliefs depend on the labels alone,
not on their order.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sbic.engine.engine import ClassPrior, Engine
from sbic.engine.labels import AnyEstimate, ClassEstimate, Labels, Prior, estimate_from_logs
from sbic.engine.state import NONE
from sbic.infer.crowd import Class, NamedCrowd, Task, Worker

AT_REST = 1e-9  # at rest, no probability moves by more than this in a sweep


class Settled(NamedCrowd[Task, Worker, Class]):
    """Weighs every label by what all labels say of its worker, in whatever order they came.

    >>> rows = [("t1", "ann", "bird"), ("t1", "bob", "bird"), ("t1", "cy", "cat")]
    >>> Settled().fit_predict(rows)
    {'t1': 'bird'}

    Or one label at a time; `settle` removes the influence of their order:

    >>> crowd = Settled(classes=("cat", "dog", "bird"))
    >>> round(crowd.observe("t1", "ann", "bird")["bird"], 6)
    0.6
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
        classes: Sequence[Class] | None = None,
        *,
        prior: Prior | None = None,
        class_prior: ClassPrior = "learned",
    ) -> None:
        self.prior = prior
        self.class_prior = class_prior
        self._group_of: dict[Worker, Hashable | None] = {}
        super().__init__(classes)

    def _new_engine(self, classes: int) -> Engine:
        return Engine("settled", classes=classes, prior=self.prior, class_prior=self.class_prior)

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

    @property
    def dependence(self) -> float:
        """The part of a vote that is not its own: n votes are never worth more than 1 over this."""
        return self._engine.outside.dependence

    def effective_votes(self, task: Task) -> float:
        """How many independent votes the labels of a task are worth."""
        return float(self._engine.effective_votes([self._tasks.number(task)])[0])

    def prevalence(self) -> dict[Class, tuple[float, float]] | None:
        """Return the share of each class, corrected by gold, and half its 90 % interval.

        None with fewer than two gold tasks, drawn at random; `settle` first.
        """
        found = self._engine.prevalence()
        return None if found is None else self._by_class(map(tuple, found.T.tolist()))

    def set_group(self, worker: Worker, group: Hashable | None) -> None:
        """Say of which group of workers who err together a worker is; None: of none.

        Those of one group who answer the same task share a vote, the more, the more they agree:
        nothing where it is on less than 70 % of at least 50 tasks on which labels differ.

        >>> crowd = Settled(classes=("cat", "dog"))
        >>> for task in range(60):
        ...     for worker, label in zip("abc", ("cat", "cat" if task % 10 else "dog", "dog")):
        ...         now = crowd.observe(task, worker, label)
        >>> crowd.set_group("a", "family"), crowd.set_group("b", "family")
        (None, None)
        >>> sweeps = crowd.settle()
        >>> crowd.effective_votes(1) < 2.5
        True
        """
        self._group_of[worker] = group
        self._is_at_rest = False

    def settle(self, tolerance: float = 1e-9) -> int:
        """Reweigh all labels until no probability moves; return the number of sweeps.

        Workers who give nearly the same answers share a vote from now on, and those of one group.
        """
        if self._group_of:
            number = {group: place for place, group in enumerate({*self._group_of.values()})}
            groups = [NONE if group is None else number[group] for group in self._group_of.values()]
            workers = [self._workers.number(worker) for worker in self._group_of]
            self._engine.set_groups(workers, groups)
        return super().settle(tolerance)

    def set_prior(self, task: Task, prior: Mapping[Class, float] | None) -> None:
        """Set a task's probabilities before any label; None restores the class prior."""
        given = None if prior is None else [prior[name] for name in self.classes_]
        self._engine.set_prior(self._tasks.number(task), given)
        self._is_at_rest = False

    @property
    def report_(self) -> dict[str, Any]:
        """As of all algorithms, with what the labels are worth and the share of each class.

        `effective_votes` is the mean of the tasks; `prevalence` is None without gold.
        """
        found = super().report_
        votes = self._engine.effective_votes(self._tasks_with_labels())
        found["effective_votes"] = float(votes.mean()) if len(votes) else 0.0
        return {**found, "dependence": self.dependence, "prevalence": self.prevalence()}


def settled(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """Return the beliefs at rest, with a learned class prior: `prior.q` is not used.

    >>> labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    >>> settled(labels, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    engine = fitted(labels, prior)
    engine.settle(AT_REST)
    return estimate_of(engine, labels)


def settled_live(labels: Labels, prior: Prior, rng: np.random.Generator) -> AnyEstimate:
    """Return the beliefs as labels arrive, each updating its own task only."""
    return estimate_of(fitted(labels, prior), labels)


def fitted(labels: Labels, prior: Prior, class_prior: ClassPrior = "learned") -> Engine:
    """Return an engine that has taken the labels in their order."""
    classes = max(2, len(labels.classes))  # with a single class there is nothing to estimate
    engine = Engine("settled", classes=classes, prior=prior, class_prior=class_prior)
    engine.take(labels.task, labels.worker, labels.answer)
    return engine


def estimate_of(engine: Engine, labels: Labels) -> AnyEstimate:
    """Return the engine's estimate of each task."""
    scores = engine.scores(np.arange(labels.tasks))
    if len(labels.classes) == 1:
        return ClassEstimate(np.ones((labels.tasks, 1)))
    return estimate_from_logs(labels, scores)
