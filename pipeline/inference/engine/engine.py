"""The engine as its users see it: batches of labels in; beliefs, counts and what moved out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.inference.algorithm import Prior
from pipeline.inference.engine import elsewhere, steps
from pipeline.inference.engine.beliefs import refresh
from pipeline.inference.engine.ledger import first_without, has_label, list_labels
from pipeline.inference.engine.settled import M, S, class_prior, worth_of_stranger
from pipeline.inference.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ALPHA,
    BELIEF,
    BETA,
    FIRST_DUE,
    FIRST_WORKER_DUE,
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
    SWEEP,
    TASKS_DUE,
    TASKS_ELSEWHERE,
    TASKS_KNOWN,
    TASKS_MOVED,
    TOLERANCE,
    WALK,
    empty_state,
    with_room,
)
from pipeline.inference.labels import Floats, Ints
from pipeline.inference.registry import ALGORITHMS, AlgorithmName

ClassPrior = Literal["learned", "uniform"] | Sequence[float]

AT_ONCE = 1 << 16  # labels, for which room is made together
MOST_SWEEPS = 10_000


class Taken(NamedTuple):
    """What became of each label of a batch (`steps.ADDED`, ...), and its vote under Fast SBIC."""

    outcomes: NDArray[np.int8]
    votes: Floats


class Rest(NamedTuple):
    """How many sweeps it took, and how far the last moved any probability."""

    sweeps: int
    change: float


class Overview(NamedTuple):
    """Of tasks: their labels, gold class or -1, and the lead of the first class over the second.

    The lead is in log-odds, of what labels and prior say.
    """

    labels: Ints
    golds: Ints
    leads: Floats


class Sums(NamedTuple):
    """What one engine adds to the crowd: N, A, T and ρ."""

    given: float
    right: float
    tasks: float
    rho: Floats


class StandingLabels(NamedTuple):
    """Labels that stand: task, worker and class of each."""

    tasks: Ints
    workers: Ints
    answers: Ints


class WorkerCounts(NamedTuple):
    """What is known of some workers, a row for each.

    `given` labels, of which `right` are expected to be, and `said` of each class; `accuracy` is
    what that comes to with the prior. Under settled a worker knows the answer with probability
    `theta`, and otherwise says each class as often as `habits` has it.
    """

    given: Floats
    right: Floats
    said: Floats
    accuracy: Floats
    theta: Floats | None
    habits: Floats | None


class Engine:
    """Tasks, workers and classes are numbers from 0; those that are new have room made for them.

    >>> engine = Engine("settled", classes=2)
    >>> taken = engine.take([0, 0, 0], [0, 1, 2], [1, 1, 0])
    >>> engine.beliefs([0]).round(6).tolist()
    [[0.368105, 0.631895]]
    >>> engine.settle(1e-9).sweeps < 20
    True
    """

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

    def take(
        self,
        tasks: ArrayLike,
        workers: ArrayLike,
        answers: ArrayLike,
        *,
        replaces: bool = False,
    ) -> Taken:
        """Take labels in their order; `steps.RETRACT` for an answer takes the label back.

        Of a worker's several answers to a task the first stands, or the last if it `replaces`.
        """
        i, j, x = self._checked(tasks, workers, answers)
        outcomes, votes = np.empty(len(i), np.int8), np.zeros(len(i))
        for part in self._parts(i, j):
            columns = i[part], j[part], x[part]
            steps.take(self.state, *columns, replaces, outcomes[part], votes[part])
        return Taken(outcomes, votes)

    def put(
        self, tasks: ArrayLike, workers: ArrayLike, answers: ArrayLike, votes: ArrayLike
    ) -> None:
        """Let labels stand as another engine took them, or this one before; nothing counts twice.

        `votes` are those of Fast SBIC: they stay as they were given.
        """
        i, j, x = self._checked(tasks, workers, answers)
        given = np.ascontiguousarray(votes, np.float64)
        for part in self._parts(i, j):
            steps.put(self.state, i[part], j[part], x[part], given[part])

    def take_one(self, task: int, worker: int, answer: int) -> tuple[int, float]:
        """As `take`, of one label: what became of it, and its vote under Fast SBIC."""
        if not steps.RETRACT <= answer < self.classes:
            raise ValueError(f"an answer is a number from 0 to {self.classes - 1}")
        self.make_room(task + 1, worker + 1, labels=1)
        return steps.take_one(self.state, task, worker, answer)

    def set_gold(self, task: int, answer: int | None) -> None:
        """Let the truth of a task be known, or no longer."""
        if answer is not None and not 0 <= answer < self.classes:
            raise ValueError(f"there is no class {answer}")
        self._make_room(np.array([task]), None)
        prior = int(self.state.task[task, PRIOR])
        steps.describe(self.state, task, NONE if answer is None else answer, prior)

    def set_prior(self, task: int, prior: Sequence[float] | None) -> None:
        """Let a task have a prior of its own, or no longer."""
        self._make_room(np.array([task]), None)
        row = NONE
        if prior is not None:
            row = self._prior_rows.setdefault(task, len(self._prior_rows))
            if row == len(self.state.priors):
                more = np.zeros((max(8, row), self.classes))
                self.state = self.state._replace(priors=np.concatenate((self.state.priors, more)))
            self.state.priors[row] = self._checked_prior(prior)
        steps.describe(self.state, task, int(self.state.task[task, GOLD]), row)

    def refresh(self, task: int) -> float:
        """Compute a task anew; how far the probability of any class has moved."""
        self._make_room(np.array([task]), None)
        return refresh(self.state, task)

    def refresh_due(self, labels: int = 1_000_000) -> bool:
        """Refresh tasks whose workers have moved, about so many labels; False when all rest."""
        return steps.refresh_due(self.state, labels)

    @property
    def is_at_rest(self) -> bool:
        """Whether no task is due, as far as is known without looking for more."""
        queues = self.state.whole[[FIRST_DUE, FIRST_WORKER_DUE, WALK, SWEEP]]
        return bool((queues == NONE).all())

    @property
    def has_news(self) -> bool:
        """Whether any task or worker has moved that nobody has asked for yet."""
        return self.tasks_moved > 0 or bool(self.state.whole[FIRST_WORKER_MOVED] != NONE)

    @property
    def tasks_moved(self) -> int:
        """How many tasks have moved that nobody has asked for yet."""
        return int(self.state.whole[TASKS_MOVED])

    @property
    def due(self) -> int:
        """How many tasks are known to be due."""
        return int(self.state.whole[TASKS_DUE])

    def settle(
        self, tolerance: float, each_sweep: Callable[[float], None] = lambda change: None
    ) -> Rest:
        """Refresh all tasks until none moves by more; under Fast SBIC there is nothing to do."""
        if not self.is_settled:
            return Rest(0, 0.0)
        steps.recount(self.state)
        for number in range(1, MOST_SWEEPS + 1):
            change = steps.sweep(self.state)
            each_sweep(change)
            if change <= tolerance:
                steps.nothing_is_due(self.state)
                return Rest(number, change)
        raise ArithmeticError(
            f"not at rest after {MOST_SWEEPS:,} sweeps: the last moved a probability by {change:g}"
        )

    def moved(self, most: int | None = None) -> Ints:
        """The tasks that moved since this was last asked: by labels, or beyond the tolerance."""
        known = int(self.state.whole[TASKS_KNOWN])
        tasks = np.empty(known if most is None else min(known, most), np.int64)
        return tasks[: steps.drain_moved(self.state, tasks)]

    def moved_workers(self) -> Ints:
        """The workers whose counts moved beyond the tolerance since this was last asked."""
        workers = np.empty(len(self.state.worker), np.int64)
        return workers[: steps.drain_moved_workers(self.state, workers)]

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
        """Whether nothing is known of a task that is here: no label, no gold and no prior."""
        task = self.state.task[tasks]
        is_told = (task[:, [GOLD, PRIOR]] != NONE).any(axis=1)
        is_blank: NDArray[np.bool_] = ~is_told & (task[:, LABELS] == 0) & (task[:, IS_HERE] == 1)
        return is_blank

    def evidence(self, tasks: ArrayLike) -> Floats:
        """What labels and prior say: logarithms of the beliefs up to a constant, without gold."""
        known = np.asarray(tasks, np.int64)
        self._make_room(known, None)
        rows: Floats = self.state.belief[known, BELIEF + self.classes : BELIEF + 2 * self.classes]
        if self.is_settled:
            rows[self.is_blank(known)] = np.log(self.class_prior)
        return rows

    def scores(self, tasks: ArrayLike) -> Floats:
        """Logarithms of the beliefs up to a constant for each task, as exact as can be."""
        known = np.asarray(tasks, np.int64)
        rows = self.evidence(known)
        is_gold = self.state.task[known, GOLD] != NONE
        if is_gold.any():
            with np.errstate(divide="ignore"):
                rows[is_gold] = np.log(self.beliefs(known[is_gold]))
        return rows

    def overview(self, tasks: Ints) -> Overview:
        """What a policy has to know of tasks, in one quick call."""
        labels, golds, leads = np.empty_like(tasks), np.empty_like(tasks), np.empty(len(tasks))
        known = self.state.task, self.state.belief, self.classes
        steps.overlook(*known, tasks, labels, golds, leads)
        return Overview(labels, golds, leads)

    def is_gold(self, task: int) -> bool:
        """Whether the truth of a task is known."""
        return bool(self.state.task[task, GOLD] != NONE)

    def golds(self, tasks: ArrayLike) -> Ints:
        """The class that is known to be true of each task, or -1."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), GOLD], np.int64)

    def log_odds(self, task: int) -> float:
        """Of class 1 against class 0."""
        if self.state.task[task, LABELS] == 0 or self.state.task[task, GOLD] != NONE:
            zero, one = self.scores([task])[0].tolist()
        else:
            zero, one = self.state.belief[task, BELIEF + self.classes : BELIEF + 4].tolist()
        return float(one - zero)

    def labels(self, task: int) -> int:
        """How many labels a task has."""
        return int(self.state.task[task, LABELS]) if task < len(self.state.task) else 0

    def label_counts(self, tasks: ArrayLike) -> Ints:
        """How many labels each of these tasks has."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), LABELS], np.int64)

    def labels_of(self, tasks: ArrayLike) -> StandingLabels:
        """The labels of these tasks, task after task, each task's in their order."""
        chosen = np.asarray(tasks, np.int64)
        counts = self.label_counts(chosen)
        workers, answers = np.empty(counts.sum(), np.int64), np.empty(counts.sum(), np.int64)
        list_labels(self.state, chosen, workers, answers)
        return StandingLabels(np.repeat(chosen, counts), workers, answers)

    @property
    def labels_here(self) -> int:
        """How many labels all tasks have that are here."""
        return int(self.state.whole[LABELS_HERE])

    def given(self, worker: int) -> int:
        """How many labels of this worker count."""
        return int(self.state.worker[worker, GIVEN])

    def has_answered(self, worker: int, task: int) -> bool:
        """Whether a label of this worker on this task stands."""
        return has_label(self.state.chunk, self.state.task, task, worker)

    def first_unanswered(self, worker: int, tasks: Ints, start: int = 0) -> int:
        """The place of the first task, from `start` on, that this worker has no label on."""
        return first_without(self.state.chunk, self.state.task, worker, tasks, start)

    @property
    def class_prior(self) -> Floats:
        """π: the probability of each class before any label."""
        if not self.is_settled:
            return np.array(self.state.by_class[FIXED])
        class_prior(self.state)
        return np.array(self.state.by_class[PI])

    def workers(self, workers: ArrayLike) -> WorkerCounts:
        """What is known of these workers."""
        known = np.asarray(workers, np.int64)
        self._make_room(None, known)
        state = self.state
        rows = state.worker[known]
        n, a, said = rows[:, GIVEN], rows[:, RIGHT], rows[:, SAID : SAID + self.classes]
        alpha, beta = state.crowd[ALPHA], state.crowd[BETA]
        if not self.is_settled:
            return WorkerCounts(n, a, said, (a + alpha) / (n + alpha + beta), None, None)
        accuracy = (a + M * worth_of_stranger(state)) / (n + M)
        habits = (said + S / self.classes) / (n + S)[:, None]
        by_habit = habits @ self.class_prior
        theta = np.maximum((accuracy - by_habit) / (1 - by_habit), -1.0)
        return WorkerCounts(n, a, said, accuracy, theta, habits)

    @property
    def prior_labels(self) -> float:
        """How many labels what is assumed of a worker counts for, in their accuracy."""
        return M if self.is_settled else float(self.state.crowd[ALPHA] + self.state.crowd[BETA])

    def on_gold(self, workers: ArrayLike) -> Ints:
        """How many labels of these workers are on gold, and how many of those are right."""
        known = np.asarray(workers, np.int64)
        return np.array(self.state.worker_link[known, ON_GOLD : RIGHT_ON_GOLD + 1], np.int64)

    # Sharing the work with other engines: see `elsewhere`.

    def leave_tasks(self, tasks: ArrayLike) -> None:
        """Give up tasks: from now on their scores are told."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        elsewhere.leave_tasks(self.state, i)

    def enter_tasks(self, tasks: ArrayLike) -> None:
        """Take tasks on; labels on them that are not known are still to be taken."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        elsewhere.enter_tasks(self.state, i)

    def leave_workers(self, workers: ArrayLike) -> None:
        """Give up workers: from now on their counts are told."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        elsewhere.leave_workers(self.state, j)

    def enter_workers(self, workers: ArrayLike) -> None:
        """Take workers on; labels of theirs that are not known are still to be taken."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        elsewhere.enter_workers(self.state, j)

    def hear_of_tasks(
        self, tasks: ArrayLike, scores: ArrayLike, golds: ArrayLike | None = None
    ) -> None:
        """The `evidence` of the engine that has these tasks, and which of them are gold."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        known = np.full(len(i), NONE) if golds is None else np.ascontiguousarray(golds, np.int64)
        elsewhere.hear_of_tasks(self.state, i, np.ascontiguousarray(scores, np.float64), known)

    def hear_of_workers(self, workers: ArrayLike, counts: ArrayLike) -> None:
        """The counts of workers who are not here: n, a and F, as `counts` of the other engine."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        elsewhere.hear_of_workers(self.state, j, np.ascontiguousarray(counts, np.float64))

    def counts(self, workers: ArrayLike) -> Floats:
        """n, a and F of these workers, a row for each."""
        rows = self.state.worker[np.asarray(workers, np.int64)]
        return np.column_stack(
            (rows[:, GIVEN], rows[:, RIGHT], rows[:, SAID : SAID + self.classes])
        )

    @property
    def sums(self) -> Sums:
        """What this engine adds to the crowd."""
        given, right, tasks = self.state.crowd[[ALL_GIVEN, ALL_RIGHT, ALL_TASKS]].tolist()
        return Sums(given, right, tasks, self.state.by_class[RHO].copy())

    def hear_of_crowd(self, others: Sequence[Sums]) -> None:
        """What the other engines add to the crowd."""
        state = self.state
        state.crowd[GIVEN_ELSEWHERE] = sum(sums.given for sums in others)
        state.crowd[RIGHT_ELSEWHERE] = sum(sums.right for sums in others)
        state.crowd[TASKS_ELSEWHERE] = sum(sums.tasks for sums in others)
        state.by_class[RHO_ELSEWHERE] = sum(sums.rho for sums in others)

    def _checked(
        self, tasks: ArrayLike, workers: ArrayLike, answers: ArrayLike
    ) -> tuple[Ints, Ints, Ints]:
        """As columns; compiled code would write past the end of an array without a word."""
        i, j, x = (np.ascontiguousarray(column, np.int64) for column in (tasks, workers, answers))
        if not len(i) == len(j) == len(x):
            raise ValueError("there must be as many tasks as workers and answers")
        if len(x) and not steps.RETRACT <= x.min() <= x.max() < self.classes:
            raise ValueError(f"an answer is a number from 0 to {self.classes - 1}")
        return i, j, x

    def _parts(self, tasks: Ints, workers: Ints) -> Iterator[slice]:
        """Labels for which room is made together, and then they are to be added."""
        for first in range(0, len(tasks), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self._make_room(tasks[part], workers[part])
            yield part

    def make_room(self, tasks: int, workers: int, labels: int = 0) -> None:
        """For so many tasks and workers in all, and so many further labels."""
        if min(tasks, workers) < 0:
            raise IndexError("tasks and workers are numbers from 0")
        known = int(self.state.whole[TASKS_KNOWN])
        self.state = with_room(self.state, tasks=max(tasks, known), workers=workers, labels=labels)
        if tasks > known:
            steps.begin_all(self.state, known, tasks)

    def _make_room(self, tasks: Ints | None, workers: Ints | None) -> None:
        """For what these numbers name."""
        if any(names is not None and len(names) and names.min() < 0 for names in (tasks, workers)):
            raise IndexError("tasks and workers are numbers from 0")
        self.make_room(
            0 if tasks is None else int(tasks.max(initial=-1)) + 1,
            0 if workers is None else int(workers.max(initial=-1)) + 1,
            0 if tasks is None or workers is None else len(tasks),
        )

    def _checked_prior(self, prior: Literal["uniform", "learned"] | Sequence[float]) -> Floats:
        if isinstance(prior, str):
            return np.full(self.classes, 1 / self.classes)
        given = np.array(prior, np.float64)
        if given.shape != (self.classes,) or not (given > 0).all() or not np.isfinite(given).all():
            raise ValueError(f"a prior has {self.classes} probabilities, each greater than 0")
        total = given.sum()
        return given if abs(total - 1) < 1e-12 else np.array(given / total)
