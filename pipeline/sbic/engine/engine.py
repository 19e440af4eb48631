"""The engine's interface: batches of labels in; beliefs, counts and what moved out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sbic.engine import AlgorithmName, due, settling, taking, update
from sbic.engine.compiled import kernel
from sbic.engine.formulas import M, S, class_prior, crowd_accuracy
from sbic.engine.labels import Floats, Ints, Prior
from sbic.engine.ledger import first_without, has_label, list_labels
from sbic.engine.settling import is_at_rest
from sbic.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ALPHA,
    BELIEF,
    BETA,
    FIRST_WORKER_MOVED,
    FIXED,
    GIVEN,
    GIVEN_ELSEWHERE,
    GOLD,
    IS_HERE,
    IS_LEARNED,
    LABELS,
    LABELS_HERE,
    NONE,
    ON_GOLD,
    PI,
    PRIOR,
    RHO,
    RHO_ELSEWHERE,
    RIGHT,
    RIGHT_ELSEWHERE,
    RIGHT_ON_GOLD,
    SAID,
    TASKS_DUE,
    TASKS_ELSEWHERE,
    TASKS_KNOWN,
    TASKS_MOVED,
    TOLERANCE,
    Ints32,
    Overview,
    Rest,
    StandingLabels,
    Sums,
    Taken,
    WorkerCounts,
    empty_state,
    with_room,
)
from sbic.engine.taking import RETRACT
from sbic.engine.update import begin_all, refresh

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
        if classes != 2 and algorithm != "settled":
            raise ValueError(f"{algorithm} is for two classes, not {classes}; use settled")
        self.prior = prior = prior or Prior()
        self.classes = classes
        self.is_settled = algorithm == "settled"
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


# What a policy needs to know about tasks.


@kernel
def write_overview(
    task: Ints32,
    belief: Floats,
    classes: int,
    tasks: Ints,
    labels: Ints,
    golds: Ints,
    leads: Floats,
) -> None:
    """Write each task's number of labels, its gold or NONE, and its lead: see `Overview`.

    Two arrays instead of the whole state make it a quick call.
    """
    for t in range(len(tasks)):
        i = tasks[t]
        labels[t] = task[i, LABELS]
        golds[t] = task[i, GOLD]
        first = second = -np.inf
        for k in range(classes):
            score = belief[i, BELIEF + classes + k]
            if score > first:
                first, second = score, first
            elif score > second:
                second = score
        leads[t] = first - second


# What an engine knows about tasks, workers and the crowd.


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


# The engine's interface: batches of labels in; beliefs, counts and what moved out.


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
        update.describe(self.state, task, NONE if answer is None else answer, prior)

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
        update.describe(self.state, task, int(self.state.task[task, GOLD]), row)

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
        settling.release_tasks(self.state, i)

    def acquire_tasks(self, tasks: ArrayLike) -> None:
        """Start computing tasks; labels on them that are not known yet have to be put."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        settling.acquire_tasks(self.state, i)

    def release_workers(self, workers: ArrayLike) -> None:
        """Stop counting workers: another engine sends their counts from now on."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        settling.release_workers(self.state, j)

    def acquire_workers(self, workers: ArrayLike) -> None:
        """Start counting workers; labels of theirs that are not known yet have to be put."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        settling.acquire_workers(self.state, j)

    def receive_tasks(
        self, tasks: ArrayLike, scores: ArrayLike, golds: ArrayLike | None = None
    ) -> None:
        """Apply the `evidence` and gold of tasks that another engine computes."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        known = np.full(len(i), NONE) if golds is None else np.ascontiguousarray(golds, np.int64)
        settling.receive_tasks(self.state, i, np.ascontiguousarray(scores, np.float64), known)

    def receive_workers(self, workers: ArrayLike, counts: ArrayLike) -> None:
        """Apply the `counts` (n, a and F) of workers that another engine counts."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        settling.receive_workers(self.state, j, np.ascontiguousarray(counts, np.float64))

    def receive_sums(self, others: Sequence[Sums]) -> None:
        """Apply the other engines' parts in the sums over the crowd."""
        state = self.state
        state.crowd[GIVEN_ELSEWHERE] = sum(sums.given for sums in others)
        state.crowd[RIGHT_ELSEWHERE] = sum(sums.right for sums in others)
        state.crowd[TASKS_ELSEWHERE] = sum(sums.tasks for sums in others)
        state.by_class[RHO_ELSEWHERE] = sum(sums.rho for sums in others)
