"""The engine for use in a notebook: one label at a time, with names instead of numbers."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sbic.engine.engine import Engine
from sbic.engine.labels import Ids
from sbic.engine.taking import ADDED, RETRACT, RETRACTED
from sbic.foreign import shown

Task = TypeVar("Task", bound=Hashable)
Worker = TypeVar("Worker", bound=Hashable)
Class = TypeVar("Class", bound=Hashable)


@dataclass(frozen=True)
class WorkerQuality(Generic[Class]):
    """The estimate of a worker.

    `labels` were given, of which `correct` are expected to be right; `accuracy` also includes the
    prior. Under settled the worker knows the answer with probability `theta`, and otherwise answers
    each class with the frequency in `habits`.
    """

    labels: int
    correct: float
    accuracy: float
    theta: float | None = None
    habits: Mapping[Class, float] | None = None


class NamedCrowd(Generic[Task, Worker, Class]):
    """The base of `FastSBIC` and `Settled`; tasks, workers and classes are any hashable names."""

    def __init__(self, engine: Engine, classes: Sequence[Class]) -> None:
        self.classes = tuple(classes)
        self._engine = engine
        self._number = {name: number for number, name in enumerate(self.classes)}
        self._tasks = Ids[Task]()
        self._workers = Ids[Worker]()

    def _observe(self, task: Task, worker: Worker, label: Class) -> float:
        """Count a label; return its vote under Fast SBIC."""
        answer = self._number.get(label)
        if answer is None:
            *others, last = map(str, self.classes[::-1])
            raise ValueError(f"a label is {', '.join(others)} or {last}, not {shown(label)}")
        i, j = self._tasks.number(task), self._workers.number(worker)
        outcome, vote = self._engine.take_one(i, j, answer)
        if outcome != ADDED:
            raise ValueError(f"worker {shown(worker)} has answered task {shown(task)} before")
        return vote

    def _revert(self, task: Task, worker: Worker) -> int:
        """Take a label back; return the number of its task."""
        i, j = self._tasks.known(task), self._workers.known(worker)
        if i is None or j is None or self._engine.take_one(i, j, RETRACT)[0] != RETRACTED:
            raise KeyError((task, worker))
        return i

    def set_gold(self, task: Task, label: Class | None) -> None:
        """Set the known truth of a task; None makes it unknown again."""
        answer = None if label is None else self._number[label]
        self._engine.set_gold(self._tasks.number(task), answer)

    def settle(self, tolerance: float = 1e-9) -> int:
        """Reweigh all labels until no probability moves; return the number of sweeps."""
        return self._engine.settle(tolerance).sweeps

    def probabilities(self, task: Task) -> dict[Class, float]:
        """The probability of each class; the prior for a task without labels."""
        row = self._engine.beliefs([self._tasks.number(task)])[0]
        return dict(zip(self.classes, row.tolist(), strict=True))

    def worker(self, worker: Worker) -> WorkerQuality[Class]:
        """The estimate of a worker; the crowd's average for one without labels."""
        known = self._engine.workers([self._workers.number(worker)])
        quality = int(known.given[0]), float(known.right[0]), float(known.accuracy[0])
        if known.theta is None or known.habits is None:
            return WorkerQuality(*quality)
        habits = dict(zip(self.classes, known.habits[0].tolist(), strict=True))
        return WorkerQuality(*quality, float(known.theta[0]), habits)

    def learn_one(self, x: Mapping[str, Any], y: Class) -> None:
        """As in river: `x` has a task and a worker, `y` is the label."""
        self._observe(x["task"], x["worker"], y)

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Class, float]:
        """As in river: the probability of each class of the task in `x`."""
        return self.probabilities(x["task"])
