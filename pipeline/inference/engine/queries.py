"""What an engine knows about tasks, workers and the crowd."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.inference.engine.ledger import first_without, has_label, list_labels
from pipeline.inference.engine.overview import write_overview
from pipeline.inference.engine.results import Overview, StandingLabels, Sums, WorkerCounts
from pipeline.inference.engine.settled import M, S, class_prior, crowd_accuracy
from pipeline.inference.engine.settling import is_at_rest
from pipeline.inference.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ALPHA,
    BELIEF,
    BETA,
    FIRST_WORKER_MOVED,
    FIXED,
    GIVEN,
    GOLD,
    IS_HERE,
    LABELS,
    LABELS_HERE,
    NONE,
    ON_GOLD,
    PI,
    PRIOR,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    TASKS_DUE,
    TASKS_MOVED,
)
from pipeline.inference.engine.storage import Storage
from pipeline.inference.labels import Floats, Ints


class Queries(Storage):
    """The methods that change nothing, except that memory is reserved for new numbers."""

    # Tasks.

    def beliefs(self, tasks: ArrayLike) -> Floats:
        """The probability of each class, a row for each task; without labels, the prior."""
        known = np.asarray(tasks, np.int64)
        self._make_room(known, None)
        state = self.state
        rows: Floats = state.belief[known, BELIEF : BELIEF + self.classes]
        if self.is_settled:
            rows[self.is_blank(known)] = self.class_prior
        return rows

    def is_blank(self, tasks: Ints) -> NDArray[np.bool_]:
        """Whether a task computed here has no label, no gold and no prior."""
        task = self.state.task[tasks]
        is_told = (task[:, [GOLD, PRIOR]] != NONE).any(axis=1)
        is_blank: NDArray[np.bool_] = ~is_told & (task[:, LABELS] == 0) & (task[:, IS_HERE] == 1)
        return is_blank

    def evidence(self, tasks: ArrayLike) -> Floats:
        """Logarithms of the beliefs from labels and prior, without gold, up to a constant."""
        known = np.asarray(tasks, np.int64)
        self._make_room(known, None)
        rows: Floats = self.state.belief[known, BELIEF + self.classes : BELIEF + 2 * self.classes]
        if self.is_settled:
            rows[self.is_blank(known)] = np.log(self.class_prior)
        return rows

    def scores(self, tasks: ArrayLike) -> Floats:
        """Logarithms of the beliefs, up to a constant for each task, to full precision."""
        known = np.asarray(tasks, np.int64)
        rows = self.evidence(known)
        is_gold = self.state.task[known, GOLD] != NONE
        if is_gold.any():
            with np.errstate(divide="ignore"):
                rows[is_gold] = np.log(self.beliefs(known[is_gold]))
        return rows

    def log_odds(self, task: int) -> float:
        """The log-odds of class 1 against class 0."""
        if self.state.task[task, LABELS] == 0 or self.state.task[task, GOLD] != NONE:
            zero, one = self.scores([task])[0].tolist()
        else:
            zero, one = self.state.belief[task, BELIEF + self.classes : BELIEF + 4].tolist()
        return float(one - zero)

    def overview(self, tasks: Ints) -> Overview:
        """What a policy needs to know about tasks, in one quick call."""
        labels, golds, leads = np.empty_like(tasks), np.empty_like(tasks), np.empty(len(tasks))
        known = self.state.task, self.state.belief, self.classes
        write_overview(*known, tasks, labels, golds, leads)
        return Overview(labels, golds, leads)

    def is_gold(self, task: int) -> bool:
        """Whether the truth of a task is known."""
        return bool(self.state.task[task, GOLD] != NONE)

    def golds(self, tasks: ArrayLike) -> Ints:
        """The known true class of each task, or -1."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), GOLD], np.int64)

    # Labels.

    def labels(self, task: int) -> int:
        """How many labels a task has."""
        return int(self.state.task[task, LABELS]) if task < len(self.state.task) else 0

    def label_counts(self, tasks: ArrayLike) -> Ints:
        """How many labels each of these tasks has."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), LABELS], np.int64)

    def labels_of(self, tasks: ArrayLike) -> StandingLabels:
        """The labels of these tasks, task by task, each task's in order."""
        chosen = np.asarray(tasks, np.int64)
        counts = self.label_counts(chosen)
        workers, answers = np.empty(counts.sum(), np.int64), np.empty(counts.sum(), np.int64)
        list_labels(self.state, chosen, workers, answers)
        return StandingLabels(np.repeat(chosen, counts), workers, answers)

    @property
    def labels_here(self) -> int:
        """How many labels the tasks computed here have in all."""
        return int(self.state.whole[LABELS_HERE])

    def has_answered(self, worker: int, task: int) -> bool:
        """Whether a label of this worker on this task stands."""
        return has_label(self.state.chunk, self.state.task, task, worker)

    def first_unanswered(self, worker: int, tasks: Ints, start: int = 0) -> int:
        """The index of the first task, from `start` on, that has no label of this worker."""
        return first_without(self.state.chunk, self.state.task, worker, tasks, start)

    # Workers and the crowd.

    def given(self, worker: int) -> int:
        """How many labels of this worker count."""
        return int(self.state.worker[worker, GIVEN])

    def workers(self, workers: ArrayLike) -> WorkerCounts:
        """The estimates of these workers."""
        known = np.asarray(workers, np.int64)
        self._make_room(None, known)
        state = self.state
        rows = state.worker[known]
        n, a, said = rows[:, GIVEN], rows[:, RIGHT], rows[:, SAID : SAID + self.classes]
        alpha, beta = state.crowd[ALPHA], state.crowd[BETA]
        if not self.is_settled:
            return WorkerCounts(n, a, said, (a + alpha) / (n + alpha + beta), None, None)
        accuracy = (a + M * crowd_accuracy(state)) / (n + M)
        habits = (said + S / self.classes) / (n + S)[:, None]
        by_habit = habits @ self.class_prior
        theta = np.maximum((accuracy - by_habit) / (1 - by_habit), -1.0)
        return WorkerCounts(n, a, said, accuracy, theta, habits)

    @property
    def prior_labels(self) -> float:
        """The weight of the prior of a worker's accuracy, in labels."""
        return M if self.is_settled else float(self.state.crowd[ALPHA] + self.state.crowd[BETA])

    def on_gold(self, workers: ArrayLike) -> Ints:
        """How many labels of these workers are on gold, and how many of those are right."""
        known = np.asarray(workers, np.int64)
        return np.array(self.state.worker_link[known, ON_GOLD : RIGHT_ON_GOLD + 1], np.int64)

    def counts(self, workers: ArrayLike) -> Floats:
        """n, a and F of these workers, a row for each."""
        rows = self.state.worker[np.asarray(workers, np.int64)]
        return np.column_stack(
            (rows[:, GIVEN], rows[:, RIGHT], rows[:, SAID : SAID + self.classes])
        )

    @property
    def class_prior(self) -> Floats:
        """π: the probability of each class before any label."""
        if not self.is_settled:
            return np.array(self.state.by_class[FIXED])
        class_prior(self.state)
        return np.array(self.state.by_class[PI])

    @property
    def sums(self) -> Sums:
        """This engine's part in the sums over the crowd."""
        given, right, tasks = self.state.crowd[[ALL_GIVEN, ALL_RIGHT, ALL_TASKS]].tolist()
        return Sums(given, right, tasks, self.state.by_class[RHO].copy())

    # Pending work.

    @property
    def is_at_rest(self) -> bool:
        """Whether `Engine.refresh_due` would have nothing to do."""
        return bool(is_at_rest(self.state))

    @property
    def due(self) -> int:
        """How many tasks are known to be due."""
        return int(self.state.whole[TASKS_DUE])

    @property
    def has_news(self) -> bool:
        """Whether `Engine.moved` or `Engine.moved_workers` would return anything."""
        return self.tasks_moved > 0 or bool(self.state.whole[FIRST_WORKER_MOVED] != NONE)

    @property
    def tasks_moved(self) -> int:
        """How many tasks `Engine.moved` would return."""
        return int(self.state.whole[TASKS_MOVED])
