"""The arrays of an engine: grown as new tasks, workers and labels arrive, and checked input."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.describing import begin_all
from pipeline.inference.engine.state import (
    ALPHA,
    BETA,
    FIXED,
    IS_LEARNED,
    TASKS_KNOWN,
    TOLERANCE,
    empty_state,
    with_room,
)
from pipeline.inference.engine.taking import RETRACT
from pipeline.inference.labels import Floats, Ints
from pipeline.inference.registry import ALGORITHMS, AlgorithmName

ClassPrior = Literal["learned", "uniform"] | Sequence[float]

AT_ONCE = 1 << 16  # labels for which memory is reserved together


class LabelColumns(NamedTuple):
    """Labels as columns of integers."""

    tasks: Ints
    workers: Ints
    answers: Ints


class Storage:
    """The state of an engine; tasks, workers and classes are numbers from 0."""

    def __init__(
        self,
        algorithm: AlgorithmName,
        *,
        classes: int = 2,
        prior: Prior | None = None,
        class_prior: ClassPrior = "learned",
        tolerance: float = 1e-4,
    ) -> None:
        if classes < 2:
            raise ValueError(f"there must be two classes or more, not {classes}")
        if classes != 2 and not ALGORITHMS[algorithm].any_classes:
            raise ValueError(f"{algorithm} is for two classes, not {classes}; use settled")
        self.prior = prior = prior or Prior()
        self.classes = classes
        self.is_settled = ALGORITHMS[algorithm].settles
        self.state = empty_state(classes, is_settled=self.is_settled)
        self._prior_rows: dict[int, int] = {}
        self.state.crowd[[ALPHA, BETA, TOLERANCE]] = prior.alpha, prior.beta, tolerance
        if not self.is_settled:
            self.state.by_class[FIXED] = 1 - prior.q, prior.q
        elif class_prior == "learned":
            self.state.whole[IS_LEARNED] = 1
        else:
            self.state.by_class[FIXED] = self._checked_prior(class_prior)

    def make_room(self, tasks: int, workers: int, labels: int = 0) -> None:
        """Reserve memory for so many tasks and workers in all, and so many further labels."""
        if min(tasks, workers) < 0:
            raise IndexError("tasks and workers are numbers from 0")
        known = int(self.state.whole[TASKS_KNOWN])
        self.state = with_room(self.state, tasks=max(tasks, known), workers=workers, labels=labels)
        if tasks > known:
            begin_all(self.state, known, tasks)

    def _make_room(self, tasks: Ints | None, workers: Ints | None) -> None:
        """Reserve memory for tasks and workers up to the highest of these numbers."""
        if any(names is not None and len(names) and names.min() < 0 for names in (tasks, workers)):
            raise IndexError("tasks and workers are numbers from 0")
        self.make_room(
            0 if tasks is None else int(tasks.max(initial=-1)) + 1,
            0 if workers is None else int(workers.max(initial=-1)) + 1,
            0 if tasks is None or workers is None else len(tasks),
        )

    def _parts(self, tasks: Ints, workers: Ints) -> Iterator[slice]:
        """Split labels into parts, and reserve memory for each part before it is added."""
        for first in range(0, len(tasks), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self._make_room(tasks[part], workers[part])
            yield part

    def _checked(self, tasks: ArrayLike, workers: ArrayLike, answers: ArrayLike) -> LabelColumns:
        """The labels as columns; compiled code would silently write past the end of an array."""
        i, j, x = (np.ascontiguousarray(column, np.int64) for column in (tasks, workers, answers))
        if not len(i) == len(j) == len(x):
            raise ValueError("there must be as many tasks as workers and answers")
        if len(x) and not RETRACT <= x.min() <= x.max() < self.classes:
            raise ValueError(f"an answer is a number from 0 to {self.classes - 1}")
        return LabelColumns(i, j, x)

    def _checked_prior(self, prior: Literal["uniform", "learned"] | Sequence[float]) -> Floats:
        if isinstance(prior, str):
            return np.full(self.classes, 1 / self.classes)
        given = np.array(prior, np.float64)
        if given.shape != (self.classes,) or not (given > 0).all() or not np.isfinite(given).all():
            raise ValueError(f"a prior has {self.classes} probabilities, each greater than 0")
        total = given.sum()
        return given if abs(total - 1) < 1e-12 else np.array(given / total)
