"""What all algorithms share in Python: a data frame in, the truth of its tasks out.

The methods are those of scikit-learn and crowd-kit: `fit`, `predict`, `get_params`.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from inspect import signature
from typing import Any, Self

import numpy as np

from sbic.engine.labels import Floats, Ids, Ints
from sbic.foreign import shown
from sbic.infer.frames import FrameColumns, ResultKind, in_order, standing, truths_of

LABEL = ("task", "worker", "label")
UNNAMED = (-1, 1)
"""The classes where nobody names any and no data has shown them."""


class Aggregator(ABC):
    """Labels of a crowd in, the truth of each task out.

    `data` has the columns task, worker and label, in any order among others: a data frame of
    pandas, polars or pyarrow, a dict of columns, or rows of these three. A missing label is a skip;
    where a worker answers a task again, the first answer counts. Results are of the same kind: of
    pandas a series `agg_label` or a data frame with tasks as its index, of Python a dict, and
    otherwise a data frame with a column task.

    `gold` is the known truth of some tasks: a mapping, a series of pandas whose index are tasks, or
    columns task and truth.
    """

    classes: Sequence[Any] | None

    def __init__(self, classes: Sequence[Any] | None) -> None:
        self.classes = classes
        self._start_again()

    @property
    def _given_classes(self) -> Sequence[Any] | None:
        """The classes that were given; None to find them in the data."""
        return self.classes

    def _start_again(self) -> None:
        given = self._given_classes
        self._start(UNNAMED if given is None else given)

    def _start(self, classes: Sequence[Any]) -> None:
        """Forget all labels."""
        self.classes_ = tuple(classes)
        self._number: dict[Any, int] = {name: k for k, name in enumerate(self.classes_)}
        if len(self._number) < len(self.classes_):
            raise ValueError(f"classes must differ, not {shown(list(self.classes_))}")
        self._tasks = Ids[Any]()
        self._workers = Ids[Any]()
        self._kind = ResultKind()
        self._begin(len(self.classes_))

    # What an algorithm does, with numbers for tasks, workers and classes.

    @abstractmethod
    def _begin(self, classes: int) -> None:
        """Begin without labels."""

    @abstractmethod
    def _take(self, tasks: Ints, workers: Ints, answers: Ints) -> None:
        """Count labels; of one worker on one task, the first counts."""

    @abstractmethod
    def _know(self, task: int, answer: int | None) -> None:
        """Set the known truth of a task."""

    @abstractmethod
    def _beliefs(self, tasks: Ints) -> Floats:
        """Return the probability of each class, a row for each task."""

    @abstractmethod
    def _counted(self, tasks: Ints) -> Ints:
        """How many labels each of these tasks has."""

    @abstractmethod
    def _qualities(self, workers: Ints) -> dict[str, Floats | Ints]:
        """Return the estimates of workers, a column each: labels, correct, accuracy."""

    @abstractmethod
    def _golds(self, tasks: Ints) -> Ints:
        """Return the known class of each task, or -1."""

    @abstractmethod
    def _rest(self) -> None:
        """Finish what can wait until somebody asks for a result."""

    # Learning.

    def fit(self, data: Any, gold: Any = None) -> Self:
        """Forget all labels and learn from these."""
        self._learn(data, gold, anew=True)
        self._rest()
        return self

    def partial_fit(self, data: Any, gold: Any = None) -> Self:
        """Learn from more labels.

        The classes are those of the first labels, unless they are named at the start.
        """
        self._learn(data, gold, anew=False)
        return self

    def _learn(self, data: Any, gold: Any, anew: bool) -> None:
        read = FrameColumns.of(data, LABEL)
        tasks, workers, labels = standing(*read.values)
        truths = truths_of(gold)
        if anew and truths and truths.keys().isdisjoint(tasks):
            raise ValueError("no gold task has a label; gold is the truth by task")
        if self._given_classes is None and (anew or not len(self._workers)):
            found = in_order([*labels, *truths.values()])
            if not set(found) <= set(UNNAMED):
                self._start(found)
            elif anew:
                self._start(UNNAMED)
        answers, known = self._answers(labels), self._answers([*truths.values()])
        if anew and self._given_classes is not None:
            self._start_again()
        self._kind = read.kind
        i, j = self._tasks.numbers(tasks), self._workers.numbers(workers)
        for task, answer in zip(truths, known.tolist(), strict=True):
            self._know(self._tasks.number(task), answer)
        self._take(i, j, answers)

    def set_gold(self, task: Any, label: Any | None) -> None:
        """Set the known truth of a task; None makes it unknown again."""
        answer = None if label is None else self._answer(label)
        self._know(self._tasks.number(task), answer)

    def _answers(self, labels: Sequence[Any]) -> Ints:
        """Return the number of the class of each label."""
        try:
            return np.fromiter(map(self._number.__getitem__, labels), np.int64, len(labels))
        except KeyError:
            return np.array([self._answer(label) for label in labels])

    def _answer(self, label: Hashable) -> int:
        """Return the number of the class of a label."""
        answer = self._number.get(label)
        if answer is None:
            *others, last = map(str, self.classes_)
            allowed = f"{', '.join(others)} or {last}" if others else last
            raise ValueError(f"a label is {allowed}, not {shown(label)}")
        return answer

    # Results.

    def predict(self, data: Any = None) -> Any:
        """Return the most probable class of each task: of those in `data`, or of all with labels.

        Of classes that are equally probable it is the first of `classes_`.
        """
        names, rows, kind = self._results(data)
        best = [self.classes_[k] for k in rows.argmax(axis=1).tolist()]
        return kind.series("task", names, "agg_label", best)

    def predict_proba(self, data: Any = None) -> Any:
        """Get the probability of each class of each task; the prior for a task without labels."""
        names, rows, kind = self._results(data)
        columns = dict(zip(self.classes_, rows.T, strict=True))
        return kind.table("task", names, columns, "label")

    def fit_predict(self, data: Any, gold: Any = None) -> Any:
        """Learn from these labels alone and predict their tasks."""
        return self.fit(data, gold).predict()

    def fit_predict_proba(self, data: Any, gold: Any = None) -> Any:
        """Learn from these labels alone; the probability of each class of their tasks."""
        return self.fit(data, gold).predict_proba()

    def _results(self, data: Any) -> tuple[list[Any], Floats, ResultKind]:
        """Tasks, their probabilities, and the kind to return them in."""
        if data is None:
            tasks = self._tasks_with_labels()
            names, kind = [self._tasks.names[i] for i in tasks.tolist()], self._kind
        else:
            read = FrameColumns.of(data, ("task",))
            names, kind = list(dict.fromkeys(read.values[0])), read.kind
            tasks = self._tasks.numbers(names)
        self._rest()
        return names, self._beliefs(tasks), kind

    def _tasks_with_labels(self) -> Ints:
        every = np.arange(len(self._tasks))
        return every[self._counted(every) > 0]

    @property
    def labels_(self) -> Any:
        """The most probable class of each task, as crowd-kit names it."""
        return self.predict()

    @property
    def probas_(self) -> Any:
        """The probability of each class of each task, as crowd-kit names it."""
        return self.predict_proba()

    @property
    def workers_(self) -> Any:
        """How many labels each worker gave, how many are expected to be right, and the accuracy."""
        return self._kind.table("worker", [*self._workers.names], self._all_qualities())

    @property
    def skills_(self) -> Any:
        """The accuracy of each worker, as crowd-kit names it."""
        accuracy = self._all_qualities()["accuracy"].tolist()
        return self._kind.series("worker", [*self._workers.names], "skill", accuracy)

    def _all_qualities(self) -> dict[str, Floats | Ints]:
        self._rest()
        return self._qualities(np.arange(len(self._workers)))

    @property
    def report_(self) -> dict[str, Any]:
        """What is known of the whole, as far as the algorithm knows it.

        `tasks`, `workers` and `labels` count; `expected_error` is the share of the tasks without
        gold that are expected to be predicted wrongly.
        """
        self._rest()
        tasks = self._tasks_with_labels()
        checked = tasks[self._golds(tasks) < 0]
        wrong = 1 - self._beliefs(checked).max(axis=1)
        return {
            "tasks": len(tasks),
            "workers": len(self._workers),
            "labels": int(self._counted(tasks).sum()),
            "gold": len(tasks) - len(checked),
            "expected_error": float(wrong.mean()) if len(wrong) else None,
        }

    # Parameters, as scikit-learn has them.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that the model was made with."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change parameters, and forget all labels."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"there is no parameter {name}; there are {', '.join(known)}")
            setattr(self, name, value)
        self._start_again()
        return self
