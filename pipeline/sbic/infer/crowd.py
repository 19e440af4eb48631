"""The engine for use in a notebook: names instead of numbers, a label or a data frame at a time."""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from sbic.engine import RETRACT
from sbic.engine.engine import Engine
from sbic.engine.labels import Floats, Ints
from sbic.engine.taking import ADDED, RETRACTED
from sbic.foreign import shown
from sbic.infer.aggregator import Aggregator

Task = TypeVar("Task", bound=Hashable)
Worker = TypeVar("Worker", bound=Hashable)
Class = TypeVar("Class", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class WorkerQuality(Generic[Class]):
    """The estimate of a worker.

    `labels` were given, of which `correct` are expected to be right; `accuracy` also includes the
    prior. Under settled the worker knows the answer with probability `theta`, and otherwise answers
    each class with the frequency in `habits`; `confusion` has the probability of each answer for
    each true class, which grows out of both.
    """

    labels: int
    correct: float
    accuracy: float
    theta: float | None = None
    habits: Mapping[Class, float] | None = None
    confusion: Mapping[Class, Mapping[Class, float]] | None = None


class NamedCrowd(Aggregator, Generic[Task, Worker, Class]):
    """The base of `FastSBIC` and `Settled`; tasks, workers and classes are any hashable names."""

    @abstractmethod
    def _new_engine(self, classes: int) -> Engine:
        """Return an engine without labels."""

    def _begin(self, classes: int) -> None:
        # with a single class there is nothing to estimate, but an engine needs two
        self._engine = self._new_engine(max(2, classes))
        self._is_at_rest = True

    def _take(self, tasks: Ints, workers: Ints, answers: Ints) -> None:
        self._is_at_rest = False
        self._engine.take(tasks, workers, answers)

    def _know(self, task: int, answer: int | None) -> None:
        self._is_at_rest = False
        self._engine.set_gold(task, answer)

    def _rest(self) -> None:
        if not self._is_at_rest:
            self.settle()

    def _beliefs(self, tasks: Ints) -> Floats:
        rows = self._engine.beliefs(tasks)
        return rows if rows.shape[1] == len(self.classes_) else np.ones((len(rows), 1))

    def _counted(self, tasks: Ints) -> Ints:
        return self._engine.label_counts(tasks)

    def _golds(self, tasks: Ints) -> Ints:
        return self._engine.golds(tasks)

    def _qualities(self, workers: Ints) -> dict[str, Floats | Ints]:
        known = self._engine.workers(workers)
        found: dict[str, Floats | Ints] = {
            "labels": known.given.astype(np.int64),
            "correct": known.right,
            "accuracy": known.accuracy,
        }
        return found if known.theta is None else {**found, "theta": known.theta}

    def _observe(self, task: Task, worker: Worker, label: Class) -> float:
        """Count a label; return its vote under Fast SBIC."""
        answer = self._answer(label)
        i, j = self._tasks.number(task), self._workers.number(worker)
        outcome, vote = self._engine.take_one(i, j, answer)
        if outcome != ADDED:
            raise ValueError(f"worker {shown(worker)} has answered task {shown(task)} before")
        self._is_at_rest = False
        return vote

    def _revert(self, task: Task, worker: Worker) -> int:
        """Take a label back; return the number of its task."""
        i, j = self._tasks.known(task), self._workers.known(worker)
        if i is None or j is None or self._engine.take_one(i, j, RETRACT)[0] != RETRACTED:
            raise KeyError((task, worker))
        self._is_at_rest = False
        return i

    def settle(self, tolerance: float = 1e-9) -> int:
        """Reweigh all labels until no probability moves; return the number of sweeps.

        Under settled, workers who give nearly the same answers share a vote from now on.
        """
        sweeps = self._engine.settle(tolerance).sweeps
        self._is_at_rest = True
        return sweeps

    def probabilities(self, task: Task) -> dict[Class, float]:
        """Return the probability of each class; the prior for a task without labels."""
        row = self._beliefs(np.array([self._tasks.number(task)]))[0]
        return self._by_class(row.tolist())

    def worker(self, worker: Worker) -> WorkerQuality[Class]:
        """Return the estimate of a worker; the crowd's average for one without labels."""
        known = self._engine.workers([self._workers.number(worker)])
        quality = int(known.given[0]), float(known.right[0]), float(known.accuracy[0])
        if known.theta is None or known.habits is None or known.confusion is None:
            return WorkerQuality(*quality)
        habits = self._by_class(known.habits[0].tolist())
        confusion = self._by_class(map(self._by_class, known.confusion[0].tolist()))
        return WorkerQuality(*quality, float(known.theta[0]), habits, confusion)

    def _by_class(self, values: Iterable[V]) -> dict[Class, V]:
        return dict(zip(self.classes_, values, strict=False))

    def learn_one(self, x: Mapping[str, Any], y: Class) -> None:
        """As in river: `x` has a task and a worker, `y` is the label."""
        self._observe(x["task"], x["worker"], y)

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Class, float]:
        """As in river: the probability of each class of the task in `x`."""
        return self.probabilities(x["task"])
