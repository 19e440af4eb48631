"""The engine's interface: batches of labels in; beliefs, counts and what moved out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pipeline.inference.engine import describing, due, settling, sharing, taking
from pipeline.inference.engine.beliefs import refresh
from pipeline.inference.engine.queries import Queries
from pipeline.inference.engine.results import Rest, Sums, Taken
from pipeline.inference.engine.state import (
    GIVEN_ELSEWHERE,
    GOLD,
    NONE,
    PRIOR,
    RHO_ELSEWHERE,
    RIGHT_ELSEWHERE,
    TASKS_ELSEWHERE,
    TASKS_KNOWN,
)
from pipeline.inference.labels import Ints

MOST_SWEEPS = 10_000


class TakenOne(NamedTuple):
    """The outcome of a label (`taking.ADDED`, ...), and its vote under Fast SBIC."""

    outcome: int
    vote: float


class Engine(Queries):
    """Tasks, workers and classes are numbers from 0; memory for new ones is reserved as needed.

    >>> engine = Engine("settled", classes=2)
    >>> taken = engine.take([0, 0, 0], [0, 1, 2], [1, 1, 0])
    >>> engine.beliefs([0]).round(6).tolist()
    [[0.368105, 0.631895]]
    >>> engine.settle(1e-9).sweeps < 20
    True
    """

    def take(
        self,
        tasks: ArrayLike,
        workers: ArrayLike,
        answers: ArrayLike,
        *,
        replaces: bool = False,
    ) -> Taken:
        """Take labels in order; the answer `taking.RETRACT` takes the worker's label back.

        If a worker answers a task again, the first answer stands, or the last with `replaces`.
        """
        i, j, x = self._checked(tasks, workers, answers)
        outcomes, votes = np.empty(len(i), np.int8), np.zeros(len(i))
        for part in self._parts(i, j):
            columns = i[part], j[part], x[part]
            taking.take(self.state, *columns, replaces, outcomes[part], votes[part])
        return Taken(outcomes, votes)

    def put(
        self,
        tasks: ArrayLike,
        workers: ArrayLike,
        answers: ArrayLike,
        votes: ArrayLike,
        *,
        defers: bool = False,
    ) -> None:
        """Restore labels that were taken earlier or by another engine; none counts twice.

        `votes` are those of Fast SBIC, and are not recomputed. With `defers`, a task is recomputed
        only at its 1st, 2nd, 4th, 8th label and so on, and is due otherwise: see `refresh_due`.
        """
        i, j, x = self._checked(tasks, workers, answers)
        given = np.ascontiguousarray(votes, np.float64)
        for part in self._parts(i, j):
            taking.put(self.state, i[part], j[part], x[part], given[part], defers)

    def take_one(self, task: int, worker: int, answer: int) -> TakenOne:
        """Take one label, as `take` does."""
        if not taking.RETRACT <= answer < self.classes:
            raise ValueError(f"an answer is a number from 0 to {self.classes - 1}")
        self.make_room(task + 1, worker + 1, labels=1)
        return TakenOne(*taking.take_one(self.state, task, worker, answer))

    def set_gold(self, task: int, answer: int | None) -> None:
        """Set the known true class of a task; None makes it unknown again."""
        if answer is not None and not 0 <= answer < self.classes:
            raise ValueError(f"there is no class {answer}")
        self._make_room(np.array([task]), None)
        prior = int(self.state.task[task, PRIOR])
        describing.describe(self.state, task, NONE if answer is None else answer, prior)

    def set_prior(self, task: int, prior: Sequence[float] | None) -> None:
        """Set a task's own prior; None restores that of all tasks."""
        self._make_room(np.array([task]), None)
        row = NONE
        if prior is not None:
            row = self._prior_rows.setdefault(task, len(self._prior_rows))
            if row == len(self.state.priors):
                more = np.zeros((max(8, row), self.classes))
                self.state = self.state._replace(priors=np.concatenate((self.state.priors, more)))
            self.state.priors[row] = self._checked_prior(prior)
        describing.describe(self.state, task, int(self.state.task[task, GOLD]), row)

    # Settling, and what moved.

    def refresh(self, task: int) -> float:
        """Recompute a task; return how far the probability of any class moved."""
        self._make_room(np.array([task]), None)
        return refresh(self.state, task)

    def refresh_due(self, labels: int = 1_000_000) -> bool:
        """Refresh due tasks with about so many labels in all; False once none is due."""
        return settling.refresh_due(self.state, labels)

    def settle(
        self, tolerance: float, each_sweep: Callable[[float], None] = lambda change: None
    ) -> Rest:
        """Refresh all tasks until none moves by more than the tolerance.

        Fast SBIC does not settle: its tasks stay as they are.
        """
        if not self.is_settled:
            return Rest(0, 0.0)
        settling.recount(self.state)
        for number in range(1, MOST_SWEEPS + 1):
            change = settling.sweep(self.state)
            each_sweep(change)
            if change <= tolerance:
                settling.nothing_is_due(self.state)
                return Rest(number, change)
        raise ArithmeticError(
            f"not at rest after {MOST_SWEEPS:,} sweeps: the last moved a probability by {change:g}"
        )

    def moved(self, most: int | None = None) -> Ints:
        """Remove and return the tasks that moved: by labels, or beyond the tolerance."""
        known = int(self.state.whole[TASKS_KNOWN])
        tasks = np.empty(known if most is None else min(known, most), np.int64)
        return tasks[: due.drain_moved(self.state, tasks)]

    def moved_workers(self) -> Ints:
        """Remove and return the workers whose counts moved beyond the tolerance."""
        workers = np.empty(len(self.state.worker), np.int64)
        return workers[: due.drain_moved_workers(self.state, workers)]

    # Sharing the work with other engines: see `sharing`.

    def release_tasks(self, tasks: ArrayLike) -> None:
        """Stop computing tasks: another engine sends their scores from now on."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        sharing.release_tasks(self.state, i)

    def acquire_tasks(self, tasks: ArrayLike) -> None:
        """Start computing tasks; labels on them that are not known yet have to be put."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        sharing.acquire_tasks(self.state, i)

    def release_workers(self, workers: ArrayLike) -> None:
        """Stop counting workers: another engine sends their counts from now on."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        sharing.release_workers(self.state, j)

    def acquire_workers(self, workers: ArrayLike) -> None:
        """Start counting workers; labels of theirs that are not known yet have to be put."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        sharing.acquire_workers(self.state, j)

    def receive_tasks(
        self, tasks: ArrayLike, scores: ArrayLike, golds: ArrayLike | None = None
    ) -> None:
        """Apply the `evidence` and gold of tasks that another engine computes."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        known = np.full(len(i), NONE) if golds is None else np.ascontiguousarray(golds, np.int64)
        sharing.receive_tasks(self.state, i, np.ascontiguousarray(scores, np.float64), known)

    def receive_workers(self, workers: ArrayLike, counts: ArrayLike) -> None:
        """Apply the `counts` (n, a and F) of workers that another engine counts."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        sharing.receive_workers(self.state, j, np.ascontiguousarray(counts, np.float64))

    def receive_sums(self, others: Sequence[Sums]) -> None:
        """Apply the other engines' parts in the sums over the crowd."""
        state = self.state
        state.crowd[GIVEN_ELSEWHERE] = sum(sums.given for sums in others)
        state.crowd[RIGHT_ELSEWHERE] = sum(sums.right for sums in others)
        state.crowd[TASKS_ELSEWHERE] = sum(sums.tasks for sums in others)
        state.by_class[RHO_ELSEWHERE] = sum(sums.rho for sums in others)
