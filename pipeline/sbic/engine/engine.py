"""The engine's interface: batches of labels in; beliefs, counts and what moved out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sbic.engine import RETRACT, AlgorithmName, due, outside, settling, taking, update
from sbic.engine.compiled import kernel
from sbic.engine.copies import (
    COMMON,
    Copies,
    Pairs,
    Tally,
    changed_workers,
    copies_among,
    list_shares,
    pairs_within,
    receive_shares,
)
from sbic.engine.drift import DRIFTING, QUIET
from sbic.engine.due import make_workers_due, workers_have_moved
from sbic.engine.formulas import EVEN_LABELS, FLOOR, class_prior, look, of_all
from sbic.engine.labels import Floats, Ints, Prior, softmax
from sbic.engine.ledger import first_without, has_label, list_labels
from sbic.engine.outside import (
    Moments,
    Outside,
    dependence_of,
    dependence_seen,
    discounted,
    prediction_powered,
)
from sbic.engine.settling import is_at_rest
from sbic.engine.state import (
    ALL_TASKS,
    ALPHA,
    BELIEF,
    BETA,
    BIAS,
    COPIES,
    DEPENDENCE,
    ELSEWHERE,
    FIRST_COPY,
    FIRST_WORKER_MOVED,
    FIXED,
    GIVEN,
    GOLD,
    IS_HERE,
    IS_LEARNED,
    LABELS,
    LABELS_HERE,
    NONE,
    ON_GOLD,
    OUTSIDE,
    PAIR_WORKER,
    PASS,
    PI,
    PRIOR,
    RHO,
    RHO_ELSEWHERE,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    SCALE,
    SUM_TOGETHER_2,
    SUMS,
    TASKS_DUE,
    TASKS_KNOWN,
    TASKS_MOVED,
    TOLERANCE,
    VOTES,
    WEIGHED,
    WORKER_IS_HERE,
    Convergence,
    G,
    Ints32,
    M,
    Outcomes,
    Overview,
    S,
    StandingLabels,
    Sums,
    WorkerCounts,
    empty_state,
    with_room,
    with_shares,
)
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
        common: int = COMMON,
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
        self._work = np.zeros((3 + classes, classes))
        self._taken_sums = np.zeros(ELSEWHERE)
        self._groups = np.zeros(0, np.int64)  # by worker, or NONE
        self._kin_is_stale = False
        self._is_stale = False  # whether the dependence and the calibration may be others
        self.tally = Tally(common)
        self.state.crowd[[ALPHA, BETA, TOLERANCE]] = prior.alpha, prior.beta, tolerance
        if not self.is_settled:
            self.state.by_class[FIXED] = 1 - prior.q, prior.q
        elif class_prior == "learned":
            self.state.whole[IS_LEARNED] = 1
        else:
            self.state.by_class[FIXED] = self._checked_prior(class_prior)

    def make_room(self, tasks: int, workers: int, labels: int = 0) -> None:
        """Reserve memory for this many tasks and workers in all, and for further labels."""
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
        """Check the columns: compiled code would silently write past the end of an array."""
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
    crowd: Floats,
    by_class: Floats,
    tasks: Ints,
    labels: Ints,
    golds: Ints,
    leads: Floats,
) -> None:
    """Write each task's number of labels, its gold or NONE, and its lead: see `Overview`.

    A few arrays instead of the whole state make it a quick call.
    """
    classes = by_class.shape[1]
    for t in range(len(tasks)):
        i = tasks[t]
        labels[t] = task[i, LABELS]
        golds[t] = task[i, GOLD]
        first = second = -np.inf
        votes, scale, biased = belief[i, VOTES], 1.0, 0.0
        if votes > 0:
            scale = crowd[SCALE] / (1 + max(votes - 1, 0.0) * crowd[DEPENDENCE])
            biased = 1.0
        for k in range(classes):
            score = scale * belief[i, BELIEF + classes + k] + biased * by_class[BIAS, k]
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
        """Return the published probabilities, a row for each task; without labels, the prior.

        Under settled this is the inner belief, discounted and calibrated: see `outside`.
        """
        known = np.asarray(tasks, np.int64)
        if not self.is_settled:
            return self.inner_beliefs(known)
        rows = softmax(self.evidence(known))
        golds = self.state.task[known, GOLD]
        is_gold = golds != NONE
        if is_gold.any():
            rows[is_gold] = golds[is_gold, None] == np.arange(self.classes)
        return rows

    def inner_beliefs(self, tasks: ArrayLike) -> Floats:
        """Return the probabilities that the counts of workers are computed from."""
        known = np.asarray(tasks, np.int64)
        self._make_room(known, None)
        state = self.state
        rows: Floats = state.belief[known, BELIEF : BELIEF + self.classes]
        if self.is_settled:
            rows[self.is_blank(known)] = self.class_prior
        return rows

    def is_blank(self, tasks: Ints) -> NDArray[np.bool_]:
        """Whether a task computed here has no label, no gold and no prior."""
        is_gold: NDArray[np.bool_] = self.state.task[tasks, GOLD] != NONE
        return self._is_unseen(tasks) & ~is_gold

    def _is_unseen(self, tasks: Ints) -> NDArray[np.bool_]:
        """Whether a task computed here has no label and no prior: but for gold, π is all."""
        task = self.state.task[tasks]
        has_none = (task[:, LABELS] == 0) & (task[:, PRIOR] == NONE)
        is_unseen: NDArray[np.bool_] = has_none & (task[:, IS_HERE] == 1)
        return is_unseen

    def inner_scores(self, tasks: ArrayLike) -> Floats:
        """Logarithms of the inner beliefs without gold, up to a constant for each task."""
        known = np.asarray(tasks, np.int64)
        self._make_room(known, None)
        rows: Floats = self.state.belief[known, BELIEF + self.classes : BELIEF + 2 * self.classes]
        if self.is_settled:
            rows[self._is_unseen(known)] = np.log(self.class_prior)
        return rows

    def evidence(self, tasks: ArrayLike) -> Floats:
        """Logarithms of the published beliefs without gold, up to a constant for each task."""
        known = np.asarray(tasks, np.int64)
        rows = self.inner_scores(known)
        if self.is_settled and len(known):
            now, votes = self.outside, self.votes(known)
            rows = discounted(rows, votes, now.dependence)
            has_labels = votes > 0
            rows[has_labels] = now.scale * rows[has_labels] + now.bias
        return rows

    def votes(self, tasks: ArrayLike) -> Floats:
        """How many votes the labels of each task are: less than labels where workers copy."""
        return np.array(self.state.belief[np.asarray(tasks, np.int64), VOTES])

    def effective_votes(self, tasks: ArrayLike) -> Floats:
        """How many independent votes the labels of each task are worth."""
        votes = self.votes(tasks)
        result: Floats = votes / (1 + np.maximum(votes - 1, 0) * self.state.crowd[DEPENDENCE])
        return result

    def outlook(self, tasks: ArrayLike) -> Floats:
        """Return the confidence that ever more such labels could give each task; 1: not known.

        Votes of which a part ρ is not their own are never worth more than 1/ρ: with ever more of
        them the discounted score of a task tends to e/ρ, where e = (Z - log π)/n is the evidence of
        one of its n votes so far. Two standard errors are allowed for: the lead of the first class
        in e is raised by 2ℓ/√n, where ℓ is the lead that a label of an average worker gives its
        class, but to no more than ℓ itself, that of labels which all agree. The result is then
        softmax(a e/ρ + b), for tasks whose votes are worth four fifths of 1/ρ already.
        Before labels of `LEAST_TASKS` tasks show any dependence, nothing is known.
        """
        known = np.asarray(tasks, np.int64)
        found, rho = np.ones(len(known)), float(self.state.crowd[DEPENDENCE])
        if not self.is_settled or rho <= 0 or of_all(self.state, ALL_TASKS) < LEAST_TASKS:
            return found
        votes = self.votes(known)
        is_full = votes * rho >= 4 * (1 - rho)
        if is_full.any():
            some, n, rows = known[is_full], votes[is_full, None], np.arange(is_full.sum())
            each = (self.inner_scores(some) - np.log(self._priors(some))) / n
            first = self.evidence(some).argmax(axis=1)
            others = each.copy()
            others[rows, first] = -np.inf
            lead = each[rows, first] - others.max(axis=1)
            right = float(self.state.crowd[G])
            typical = max(0.0, np.log(right * (self.classes - 1) / (1 - right)))
            raised = np.minimum(lead + 2 * typical / np.sqrt(n[:, 0]), typical)
            each[rows, first] += np.maximum(raised - lead, 0.0)
            now = self.outside
            found[is_full] = softmax(now.scale * each / rho + now.bias).max(axis=1)
        return found

    def _priors(self, tasks: Ints) -> Floats:
        """Return the probabilities of each class before any label, a row for each task."""
        own = self.state.task[tasks, PRIOR]
        rows = np.tile(self.class_prior, (len(tasks), 1))
        rows[own != NONE] = self.state.priors[own[own != NONE]]
        return rows

    def free_beliefs(self, tasks: ArrayLike) -> Floats:
        """Return what labels alone say: as `beliefs`, without gold and without calibration."""
        known = np.asarray(tasks, np.int64)
        rows = self.inner_scores(known)
        if self.is_settled:
            rows = discounted(rows, self.votes(known), float(self.state.crowd[DEPENDENCE]))
        return softmax(rows)

    def shares(self, tasks: ArrayLike) -> Moments:
        """Get what these tasks, of those with labels or gold, tell of the share of each class."""
        known = np.asarray(tasks, np.int64)
        task = self.state.task[known]
        known = known[(task[:, LABELS] > 0) | (self.votes(known) > 0) | (task[:, GOLD] != NONE)]
        golds = self.golds(known)
        return Moments.of_shares(self.free_beliefs(known), golds)

    def prevalence(self) -> Floats | None:
        """Return the share of each class among tasks with labels or gold, and half its interval.

        None with fewer than two gold tasks: what labels alone say of it has no known error.
        """
        found = self.shares(np.arange(self.state.whole[TASKS_KNOWN]))
        return prediction_powered(found) if found.golds > 1 else None

    @property
    def outside(self) -> Outside:
        """The dependence and the calibration in force."""
        crowd = self.state.crowd
        bias = self.state.by_class[BIAS].copy()
        return Outside(float(crowd[DEPENDENCE]), float(crowd[SCALE]), bias)

    @property
    def dependence(self) -> float:
        """The dependence in force."""
        return float(self.state.crowd[DEPENDENCE])

    @property
    def is_calibrated(self) -> bool:
        """Whether gold calibrates what is published."""
        now = self.outside
        return bool(now.scale != 1.0 or now.bias.any())

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
        """Return the log-odds of class 1 against class 0."""
        if self.is_settled or self.is_gold(task) or self.state.task[task, LABELS] == 0:
            zero, one = self.scores([task])[0].tolist()
        else:
            zero, one = self.state.belief[task, BELIEF + self.classes : BELIEF + 4].tolist()
        return float(one - zero)

    def overview(self, tasks: Ints) -> Overview:
        """Return what a policy needs to know about tasks, in one quick call."""
        labels, golds, leads = np.empty_like(tasks), np.empty_like(tasks), np.empty(len(tasks))
        state = self.state
        known = state.task, state.belief, state.crowd, state.by_class
        write_overview(*known, tasks, labels, golds, leads)
        return Overview(labels, golds, leads)

    def is_gold(self, task: int) -> bool:
        """Whether the truth of a task is known."""
        return bool(self.state.task[task, GOLD] != NONE)

    def golds(self, tasks: ArrayLike) -> Ints:
        """Return the known true class of each task, or -1."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), GOLD], np.int64)

    # Labels.

    def labels(self, task: int) -> int:
        """How many labels a task has."""
        return int(self.state.task[task, LABELS]) if task < len(self.state.task) else 0

    def label_counts(self, tasks: ArrayLike) -> Ints:
        """How many labels each of these tasks has."""
        return np.array(self.state.task[np.asarray(tasks, np.int64), LABELS], np.int64)

    def labels_of(self, tasks: ArrayLike) -> StandingLabels:
        """Return the labels of these tasks, task by task, each task's in order."""
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
        """Return the index of the first task, from `start` on, that has no label of this worker."""
        return first_without(self.state.chunk, self.state.task, worker, tasks, start)

    # Workers and the crowd.

    def given(self, worker: int) -> int:
        """How many labels of this worker count."""
        return int(self.state.worker[worker, GIVEN])

    def given_by(self, workers: ArrayLike) -> Ints:
        """How many labels of each of these workers count."""
        known = np.asarray(workers, np.int64)
        return np.array(self.state.worker[known, GIVEN], np.int64)

    def workers(self, workers: ArrayLike) -> WorkerCounts:
        """Return the estimates of these workers."""
        known = np.asarray(workers, np.int64)
        self._make_room(None, known)
        state = self.state
        rows = state.worker[known]
        n, a, said = rows[:, GIVEN], rows[:, RIGHT], rows[:, SAID : SAID + self.classes]
        alpha, beta = state.crowd[ALPHA], state.crowd[BETA]
        if not self.is_settled:
            return WorkerCounts(n, a, said, (a + alpha) / (n + alpha + beta), None, None, None)
        look(state)
        m, strength, pi = state.crowd[M], state.crowd[S], state.by_class[PI]
        accuracy = (a + m * state.crowd[G]) / (n + m)
        even, more = 1 / self.classes, a - said @ pi + m * (state.crowd[G] - 1 / self.classes)
        theta = np.clip(more / (n * (1 - pi @ pi) + m * (1 - even)), -1, 1)
        guesses = said - (n * theta)[:, None] * pi + (EVEN_LABELS * even * (1 - theta))[:, None]
        guesses /= (n + EVEN_LABELS)[:, None]
        habits = np.maximum(guesses, FLOOR / self.classes)
        habits /= habits.sum(axis=1, keepdims=True)
        known_rows = theta[:, None, None] * np.eye(self.classes)
        confusion = np.maximum(known_rows + guesses[:, None, :], FLOOR / self.classes) * strength
        confusion += self.counts(known).reshape(-1, self.classes, self.classes).swapaxes(1, 2)
        confusion = np.maximum(confusion, 0)
        confusion /= confusion.sum(axis=2, keepdims=True)
        return WorkerCounts(n, a, said, accuracy, theta, habits, confusion)

    @property
    def prior_labels(self) -> float:
        """The weight of the prior of a worker's accuracy, in labels."""
        if not self.is_settled:
            return float(self.state.crowd[ALPHA] + self.state.crowd[BETA])
        look(self.state)
        return float(self.state.crowd[M])

    def on_gold(self, workers: ArrayLike) -> Ints:
        """How many labels of these workers are on gold, and how many of those are right."""
        known = np.asarray(workers, np.int64)
        return np.array(self.state.worker_link[known, ON_GOLD : RIGHT_ON_GOLD + 1], np.int64)

    def drifting(self, workers: ArrayLike) -> Ints:
        """Since when each of these workers answers otherwise than before, or 0: see `drift`."""
        known = np.asarray(workers, np.int64)
        if not self.is_settled:
            return np.zeros(len(known), np.int64)
        self._make_room(None, known)
        return np.array(self.state.drift[known, DRIFTING], np.int64)

    def counts(self, workers: ArrayLike) -> Floats:
        """C of these workers under settled, a row for each: for each answer, each true class."""
        rows = self.state.worker[np.asarray(workers, np.int64)]
        first = SAID + self.classes
        return np.ascontiguousarray(rows[:, first : first + self.classes**2])

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
        crowd = self.state.crowd
        return Sums(crowd[SUMS : SUMS + ELSEWHERE].copy(), self.state.by_class[RHO].copy())

    # Pending work.

    @property
    def is_at_rest(self) -> bool:
        """Whether `Engine.refresh_due` would have nothing to do."""
        is_pending = self._reviews or self._is_tallying or self._kin_is_stale
        return is_at_rest(self.state) and not is_pending

    @property
    def _reviews(self) -> bool:
        """Whether what is published may have to follow: see `outside`."""
        whole = self.state.whole
        return self.is_settled and bool(
            self._is_stale or self._pass_is_due or whole[PASS] != NONE or whole[OUTSIDE] != NONE
        )

    @property
    def _is_tallying(self) -> bool:
        """Whether pairs of workers are being counted, or should be."""
        whole = self.state.whole
        return self.is_settled and bool(
            whole[PAIR_WORKER] != NONE or self._tally_is_due(float(self.state.crowd[TOLERANCE]))
        )

    def _tally_is_due(self, share: float) -> bool:
        has_workers = len(self.state.worker) > 0
        return has_workers and self.tally.is_due(self.state, share, self.labels_here)

    @property
    def _pass_is_due(self) -> bool:
        weighed, labels = self.state.whole[[WEIGHED, LABELS_HERE]].tolist()
        return bool(weighed > self.state.crowd[TOLERANCE] * labels)

    @property
    def due(self) -> int:
        """How many tasks are known to be due."""
        return int(self.state.whole[TASKS_DUE])

    @property
    def has_news(self) -> bool:
        """Whether `Engine.moved` or `Engine.moved_workers` would return anything."""
        has_moved = self.tasks_moved > 0 or self.state.whole[FIRST_WORKER_MOVED] != NONE
        return bool(has_moved) or self.sums_have_moved or self.tally.has_news

    @property
    def sums_have_moved(self) -> bool:
        """Whether the sums differ from those that `Engine.take_sums` last returned."""
        if not self.is_settled:
            return False
        now = self.state.crowd[SUMS : SUMS + ELSEWHERE]
        far = np.abs(now - self._taken_sums) / (1 + np.abs(now))
        return bool(far.max() > 0.1 * self.state.crowd[TOLERANCE])

    @property
    def tasks_moved(self) -> int:
        """How many tasks `Engine.moved` would return."""
        return int(self.state.whole[TASKS_MOVED])


MOST_SWEEPS = 10_000
LABELS_AT_ONCE = 1 << 62
CHANGES = 4  # times that all labels are weighed before what is published follows in any case
LEAST_TASKS = 100  # with labels, before their dependence closes any
RENEWED = 0.5  # share of the labels after which pairs of workers are counted in any case
READ = 10  # labels that are read for pairs in the time in which one is weighed
MOST_VOTES = 50  # of a task: a change of the dependence moves its log-odds about so much more


class TakenOne(NamedTuple):
    """The outcome of a label (`taking.ADDED`, ...), and its vote under Fast SBIC."""

    outcome: int
    vote: float


class Engine(Queries):
    """Tasks, workers and classes are numbers from 0; memory for new ones is reserved as needed.

    >>> engine = Engine("settled", classes=2)
    >>> taken = engine.take([0, 0, 0], [0, 1, 2], [1, 1, 0])
    >>> engine.beliefs([0]).round(6).tolist()
    [[0.359367, 0.640633]]
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
        times: ArrayLike = (),
    ) -> Outcomes:
        """Take labels in order; the answer `RETRACT` takes the worker's label back.

        If a worker answers a task again, the first answer stands, or the last with `replaces`. With
        `times` of the labels, in milliseconds, workers are watched for drift: see `drifting`.
        """
        i, j, x = self._checked(tasks, workers, answers)
        outcomes, votes = np.empty(len(i), np.int8), np.zeros(len(i))
        at = np.ascontiguousarray(times, np.int64)
        for part in self._parts(i, j):
            columns = i[part], j[part], x[part], at[part]
            taking.take(self.state, *columns, replaces, outcomes[part], votes[part])
        return Outcomes(outcomes, votes)

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
        if not RETRACT <= answer < self.classes:
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
        self._is_stale = True

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

    def set_drifting(self, worker: int, since: int) -> None:
        """Restore since when a worker drifts, or 0."""
        if self.is_settled:
            self._make_room(None, np.array([worker]))
            self.state.drift[worker, [DRIFTING, QUIET]] = since, 0

    # Settling, and what moved.

    def refresh(self, task: int) -> float:
        """Recompute a task; return how far the probability of any class moved."""
        self._make_room(np.array([task]), None)
        return refresh(self.state, task)

    def refresh_due(self, labels: int = 1_000_000) -> bool:
        """Refresh due tasks with about this many labels in all; False once at rest.

        What is published follows when nothing is due, or when much has changed meanwhile.
        """
        self._follow_groups()
        is_due = settling.refresh_due(self.state, labels)
        if self._is_tallying and (not is_due or self._tally_is_due(RENEWED)):
            if self.tally.proceed(self.state, READ * labels):
                self._follow_copies(float(self.state.crowd[TOLERANCE]))
            return not self.is_at_rest
        if not self._reviews:
            return not self.is_at_rest
        weighed, here, place = self.state.whole[[WEIGHED, LABELS_HERE, PASS]].tolist()
        if not is_due or place != NONE or weighed > CHANGES * here:
            self._review(labels)
        return not self.is_at_rest

    def _review(self, labels: int) -> None:
        """Take a step: the tasks that follow, the pass over all tasks, or another calibration."""
        whole = self.state.whole
        if whole[OUTSIDE] != NONE:
            first, known = int(whole[OUTSIDE]), int(whole[TASKS_KNOWN])
            end = min(first + labels, known)
            outside.follow_outside(self.state, first, end)
            whole[OUTSIDE] = end if end < known else NONE
        elif whole[PASS] != NONE or self._pass_is_due:
            self._is_stale |= outside.continue_pass(self.state, labels, self._work)
        else:
            self._adopt(float(self.state.crowd[TOLERANCE]) / MOST_VOTES)

    def _adopt(self, tolerance: float) -> None:
        """Put the dependence and the calibration of now in force, if they differ."""
        self._is_stale, state, before = False, self.state, self.outside
        rho = dependence_of(dependence_seen(state))
        golds = np.flatnonzero(state.task[: state.whole[TASKS_KNOWN], GOLD] != NONE)
        golds = golds[state.belief[golds, VOTES] > 0]
        x = discounted(self.inner_scores(golds), self.votes(golds), rho)
        scale, bias = outside.calibrated(x, self.golds(golds))
        far = max(abs(rho - before.dependence), abs(np.log(scale / before.scale)))
        if max(far, np.abs(bias - before.bias).max()) > tolerance:
            state.crowd[[DEPENDENCE, SCALE]] = rho, scale
            state.by_class[BIAS] = bias
            state.whole[OUTSIDE] = 0

    def settle(
        self,
        tolerance: float,
        each_sweep: Callable[[float], None] = lambda change: None,
    ) -> Convergence:
        """Find copies, then refresh all tasks until none moves by more than the tolerance.

        Fast SBIC does not settle: its tasks stay as they are.
        """
        if not self.is_settled:
            return Convergence(0, 0.0)
        self.find_copies()
        settling.recount(self.state)
        for number in range(1, MOST_SWEEPS + 1):
            change = settling.sweep(self.state)
            each_sweep(change)
            if change <= tolerance:
                settling.nothing_is_due(self.state)
                self._is_stale = True
                self.state.whole[PASS] = NONE
                outside.continue_pass(self.state, LABELS_AT_ONCE, self._work)
                self._adopt(0.0)
                while self._reviews:
                    self._review(LABELS_AT_ONCE)
                return Convergence(number, change)
        raise ArithmeticError(
            f"not at rest after {MOST_SWEEPS:,} sweeps: the last moved a probability by {change:g}"
        )

    def find_copies(self) -> Copies:
        """Find pairs of workers who give nearly the same answers: from now on they share a vote."""
        self._follow_groups()
        while len(self.state.worker) and not self.tally.proceed(self.state, LABELS_AT_ONCE):
            pass
        self._follow_copies(0.0)
        return self.tally.copies

    def _follow_copies(self, tolerance: float) -> None:
        workers_have_moved(self.state, self.tally.take_moved())  # their records tell of the pairs
        found = copies_among(self.tally.known, self.tally.common, self.tally.kin)
        if len(changed_workers(self.tally.copies, found, tolerance)):
            self.set_copies(found)

    def set_copies(self, copies: Copies) -> None:
        """Let pairs of workers, sorted by the first, share a vote; what they answered is due."""
        changed, self.tally.copies = changed_workers(self.tally.copies, copies, 0.0), copies
        self.make_room(0, int(changed.max(initial=-1)) + 1)
        number = np.bincount(copies.first, minlength=len(self.state.worker))
        self.state.worker_link[:, COPIES] = number
        self.state.worker_link[:, FIRST_COPY] = np.cumsum(number) - number
        shared = np.ascontiguousarray(copies.shared, np.float64)
        self.state = self.state._replace(copy=copies.second.astype(np.int32), copied=shared)
        make_workers_due(self.state, changed)

    def set_groups(self, workers: ArrayLike, groups: ArrayLike) -> None:
        """Say who err together: workers of the same group, a number or -1, as far as they agree."""
        j, group = (np.array(column, np.int64, ndmin=1) for column in (workers, groups))
        most = int(j.max(initial=-1)) + 1
        self.make_room(0, most)
        if most > len(self._groups) and (group >= 0).any():
            more = np.full(2 * most - len(self._groups), NONE)
            self._groups = np.concatenate((self._groups, more))
        is_known = j < len(self._groups)
        if (self._groups[j[is_known]] != group[is_known]).any():
            self._groups[j[is_known]] = group[is_known]
            self._kin_is_stale = self.is_settled

    def _follow_groups(self) -> None:
        if self._kin_is_stale:
            self._kin_is_stale = False
            self.tally.relate(pairs_within(self._groups))
            self._follow_copies(float(self.state.crowd[TOLERANCE]))

    def moved(self, most: int | None = None) -> Ints:
        """Remove and return the tasks that moved: by labels, or beyond the tolerance."""
        known = int(self.state.whole[TASKS_KNOWN])
        tasks = np.empty(known if most is None else min(known, most), np.int64)
        return tasks[: due.drain_moved(self.state, tasks)]

    def tell(self, tasks: ArrayLike) -> None:
        """Note that tasks are published now, though `moved` has not returned them."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        due.tell(self.state, i)

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
        """Start counting workers; labels of theirs that are not known yet have to be put.

        Whether they drift is not known: see `set_drifting`.
        """
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        if self.is_settled:
            self.state.drift[j[self.state.worker[j, WORKER_IS_HERE] == 0]] = 0.0
        settling.acquire_workers(self.state, j)

    def receive_tasks(
        self,
        tasks: ArrayLike,
        scores: ArrayLike,
        golds: ArrayLike | None = None,
        votes: ArrayLike | None = None,
    ) -> None:
        """Apply the `inner_scores`, gold and `votes` of tasks that another engine computes."""
        i = np.asarray(tasks, np.int64)
        self._make_room(i, None)
        known = np.full(len(i), NONE) if golds is None else np.ascontiguousarray(golds, np.int64)
        given = np.zeros(len(i)) if votes is None else np.ascontiguousarray(votes, np.float64)
        self._is_stale |= bool(((known != NONE) | (self.state.task[i, GOLD] != NONE)).any())
        rows = np.ascontiguousarray(scores, np.float64)
        settling.receive_tasks(self.state, i, given, rows, known)

    def receive_workers(self, workers: ArrayLike, counts: ArrayLike) -> None:
        """Apply the `counts` of workers that another engine counts."""
        j = np.asarray(workers, np.int64)
        self._make_room(None, j)
        settling.receive_workers(self.state, j, np.ascontiguousarray(counts, np.float64))

    def take_sums(self) -> Sums:
        """Return this engine's part in the sums over the crowd, for the other engines."""
        sums = self.sums
        self._taken_sums = sums.numbers
        return sums

    def receive_sums(self, others: Sequence[Sums]) -> None:
        """Apply the other engines' parts in the sums over the crowd."""
        crowd, by_class = self.state.crowd, self.state.by_class
        apart = slice(SUMS + ELSEWHERE, SUMS + 2 * ELSEWHERE)
        together = slice(SUM_TOGETHER_2 - 2 + ELSEWHERE, SUM_TOGETHER_2 + 1 + ELSEWHERE)
        before = crowd[together].copy()
        crowd[apart] = sum(sums.numbers for sums in others)
        by_class[RHO_ELSEWHERE] = sum(sums.rho for sums in others)
        self._is_stale |= not np.array_equal(before, crowd[together])

    def receive_pairs(self, others: Sequence[Pairs], share: float) -> None:
        """Apply the other engines' counts of pairs, and this engine's share of all tasks."""
        highest = max((int(part.second.max(initial=-1)) for part in others), default=-1)
        self.make_room(0, highest + 1)
        self.tally.hear(list(others), share)
        self._follow_copies(float(self.state.crowd[TOLERANCE]))

    def shares_of(self, tasks: ArrayLike) -> tuple[Ints, Ints, Floats]:
        """Labels of other engines' workers on own tasks that share a vote: places, workers, c.

        The places are those of the tasks among `tasks`.
        """
        chosen = np.asarray(tasks, np.int64)
        if not len(self.tally.copies.first):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        room = int(self.label_counts(chosen).sum())
        places, workers, shares = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        found = list_shares(self.state, chosen, places, workers, shares)
        return places[:found], workers[:found], shares[:found]

    def receive_shares(self, tasks: ArrayLike, workers: ArrayLike, shares: ArrayLike) -> None:
        """Apply the `shares_of` an engine for labels of own workers."""
        i, j = np.asarray(tasks, np.int64), np.asarray(workers, np.int64)
        self._make_room(i, j)
        if len(i):
            self.state = with_shares(self.state)
        receive_shares(self.state, i, j, np.ascontiguousarray(shares, np.float64))
