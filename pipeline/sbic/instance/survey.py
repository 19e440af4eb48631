"""Statistics over the tasks and workers of an instance: for metrics, status and a stop rule."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, log

import numpy as np

from sbic.engine.labels import Floats, Ints
from sbic.engine.outside import Moments
from sbic.infer.intervals import contradicts
from sbic.instance.crowd import OPEN, REASONS
from sbic.instance.tasks import CONFIDENT, NO_TASKS, TaskStage
from sbic.instance.tiers import ALL_TIERS
from sbic.instance.workers import intervals_of
from sbic.wire.estimates import CANDIDATE_COLUMNS, CANDIDATE_ROWS, Findings
from sbic.wire.posteriors import CLOSE_REASONS

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
EFFECTIVE_VOTES = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 50)
ROWS_AT_ONCE = 2_000  # tasks: a millisecond or two
WORKERS_AT_ONCE = 300  # workers with gold: their intervals take a few milliseconds

# What `stop_error` needs to know of all tasks: the set that may be closed, by confidence.
#
# Tasks are counted by the log-odds of their confidence: six rows of `candidates` halve the odds.
# The columns are the number of open tasks and the sum of their doubts, 1 - confidence, and the same
# of the tasks that are closed as confident. Such tables add up over instances.

HALF = 6  # rows: closed tasks reopen only where the odds are half of what is required
LEAST_LOG_ODDS = -5.0
ROUNDING = 1e-9  # of a sum of doubts
EDGES = 1 / (1 + np.exp(-(LEAST_LOG_ODDS + log(2) / HALF * np.arange(CANDIDATE_ROWS))))


def candidates_of(sure: Floats, is_closed: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Floats:
    """Return the table of tasks of this confidence, open or closed as confident."""
    rows = np.maximum(np.searchsorted(EDGES, sure, side="right") - 1, 0)
    found = np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS))
    for column, some in ((0, ~is_closed), (2, is_closed)):
        found[:, column] = np.bincount(rows[some], minlength=CANDIDATE_ROWS)
        found[:, column + 1] = np.bincount(
            rows[some], weights=1 - sure[some], minlength=CANDIDATE_ROWS
        )
    return found


def enough_for(error: float, candidates: Floats) -> float:
    """Get the confidence that closes the largest set of which this share is expected to be wrong.

    In the set are the open tasks from that confidence on, and those that are closed already and do
    not reopen. Infinite if there is no such set.

    >>> sure = np.array([0.999, 0.98, 0.93, 0.9, 0.7])
    >>> table = candidates_of(sure, np.zeros(5, bool))
    >>> 0.7 < enough_for(0.05, table) <= 0.9, enough_for(0.0001, table)
    (True, inf)
    """
    sums = candidates[::-1].cumsum(axis=0)[::-1]
    below = np.maximum(np.arange(CANDIDATE_ROWS) - HALF, 0)
    tasks, doubts = sums[:, 0] + sums[below, 2], sums[:, 1] + sums[below, 3]
    is_good = (candidates[:, 0] + candidates[:, 2] > 0) & (doubts <= error * tasks + ROUNDING)
    return float(EDGES[is_good.argmax()]) if is_good.any() else inf


@dataclass
class Survey:
    """The own tasks by state and by confidence, and the number of blocked own workers.

    `states` is indexed like `REASONS`. `confidences` is a histogram: each count is of the tasks up
    to a bound and above the one before; the last is of those above all bounds. `votes` is the same
    of the effective votes of tasks with labels. Of `gold` tasks with labels `wrong` would be
    predicted wrongly by labels alone, where these expect `expected`.
    """

    shares: Moments

    states: Ints = field(default_factory=lambda: np.zeros(len(REASONS), np.int64))
    confidences: Ints = field(default_factory=lambda: np.zeros(len(CONFIDENCES) + 1, np.int64))
    confidence: float = 0.0
    votes: Ints = field(default_factory=lambda: np.zeros(len(EFFECTIVE_VOTES) + 1, np.int64))
    all_votes: float = 0.0
    gold: int = 0
    wrong: int = 0
    expected: float = 0.0
    candidates: Floats = field(
        default_factory=lambda: np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS))
    )
    given_by_tier: Floats = field(default_factory=lambda: np.zeros(ALL_TIERS))
    right_by_tier: Floats = field(default_factory=lambda: np.zeros(ALL_TIERS))
    blocked_workers: int = 0
    drifting_workers: int = 0
    contradicted_workers: int = 0

    @classmethod
    def empty(cls, classes: int) -> "Survey":
        """Return the survey of no task."""
        return cls(Moments.none(classes))

    def findings(self, dependence: float) -> Findings:
        """Return what other instances and status have to know of it."""
        counts = self.gold, self.wrong, self.expected
        return Findings(dependence, *counts, self.shares, self.candidates)

    @property
    def expected_wrong(self) -> float:
        """The sum of 1 - max p over the tasks."""
        return float(self.states.sum()) - self.confidence

    def tasks_by_state(self) -> dict[str, int]:
        """How many tasks are open, or closed for each reason."""
        names = ["open", *CLOSE_REASONS]
        return dict(zip(names, self.states.tolist(), strict=True))


class Surveyor:
    """Counts some rows at a time: a million tasks at once would delay labels.

    >>> from sbic.classes import SIGNS
    >>> from sbic.engine.engine import Engine
    >>> from sbic.instance.crowd import Crowd
    >>> crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=1)
    >>> crowd.open_tasks(0)
    >>> _ = crowd.number_tasks(["t1", "t2"])
    >>> survey = Survey.empty(2)
    >>> for _ in Surveyor(TaskStage(crowd)).steps(survey):
    ...     pass
    >>> survey.tasks_by_state()["open"], survey.expected_wrong
    (2, 1.0)
    """

    def __init__(
        self, stage: TaskStage, block_below: float | None = None, block_after: int = 0
    ) -> None:
        self.stage = stage
        self.crowd = stage.crowd
        self.follow(block_below, block_after)

    def follow(self, block_below: float | None, block_after: int) -> None:
        """Count workers as blocked by these rules from now on."""
        self.block_below = block_below
        self.block_after = block_after

    @property
    def dependence(self) -> float:
        """The dependence in force."""
        return self.crowd.engine.outside.dependence

    def steps(self, survey: Survey) -> Iterator[Ints]:
        """Complete a survey; yield the own tasks of each step, to which rules may be applied."""
        for tasks in _pieces(len(self.crowd.tasks)):
            own = tasks[self.crowd.is_own_task(tasks)]
            self._count_tasks(survey, own)
            yield own
        for workers in _pieces(len(self.crowd.workers), WORKERS_AT_ONCE):
            self._count_workers(survey, workers)
            yield NO_TASKS
        self.crowd.given_by_tier = survey.given_by_tier
        self.crowd.right_by_tier = survey.right_by_tier

    def _count_tasks(self, survey: Survey, own: Ints) -> None:
        crowd = self.crowd
        survey.states += np.bincount(crowd.task.reason[own], minlength=len(REASONS))
        sure = crowd.engine.beliefs(own).max(axis=1, initial=0.0)
        found = np.searchsorted(CONFIDENCES, sure, side="left")
        survey.confidences += np.bincount(found, minlength=len(CONFIDENCES) + 1)
        survey.confidence += float(sure.sum())
        if len(own):
            self._count_votes(survey, own)
            self._check_by_gold(survey, own)
            self._count_candidates(survey, own)

    def _count_votes(self, survey: Survey, own: Ints) -> None:
        engine = self.crowd.engine
        votes = engine.effective_votes(own) if engine.is_settled else engine.label_counts(own)
        votes = votes[votes > 0]
        found = np.searchsorted(EFFECTIVE_VOTES, votes, side="left")
        survey.votes += np.bincount(found, minlength=len(EFFECTIVE_VOTES) + 1)
        survey.all_votes += float(votes.sum())

    def _check_by_gold(self, survey: Survey, own: Ints) -> None:
        engine = self.crowd.engine
        survey.shares = survey.shares.plus(engine.shares(own))
        golds = engine.golds(own)
        checked = own[(golds >= 0) & (engine.label_counts(own) > 0)]
        if len(checked):
            alone = engine.free_beliefs(checked)
            survey.gold += len(checked)
            survey.wrong += int((alone.argmax(axis=1) != engine.golds(checked)).sum())
            survey.expected += float((1 - alone.max(axis=1)).sum())

    def _count_candidates(self, survey: Survey, own: Ints) -> None:
        if self.stage.rules.error is None:
            return
        sure, reasons = self.stage.sure_of(own), self.crowd.task.reason[own]
        is_closed = reasons == CONFIDENT
        some = self.stage.rules_apply_to(own) & (sure > 0) & (is_closed | (reasons == OPEN))
        survey.candidates += candidates_of(sure[some], is_closed[some])

    def _count_workers(self, survey: Survey, workers: Ints) -> None:
        crowd = self.crowd
        own = workers[crowd.has_workers_of[crowd.worker.home[workers]]]
        survey.drifting_workers += int((crowd.engine.drifting(own) > 0).sum())
        self._count_tiers(survey, own)
        with_gold = own[crowd.engine.on_gold(own)[:, 0] > 0]
        low, high = intervals_of(crowd, crowd.engine.workers(with_gold))
        gold, right = crowd.engine.on_gold(with_gold).T
        survey.contradicted_workers += int(contradicts(low, high, right, gold).sum())
        survey.blocked_workers += self._blocked(own)

    def _count_tiers(self, survey: Survey, own: Ints) -> None:
        if self.stage.rules.escalates:
            known, tiers = self.crowd.engine.workers(own), self.crowd.worker.tier[own]
            survey.given_by_tier += np.bincount(tiers, known.given, ALL_TIERS)
            survey.right_by_tier += np.bincount(tiers, known.right, ALL_TIERS)

    def _blocked(self, own: Ints) -> int:
        """How many of these workers the rule blocks, or the owner, whose word goes first."""
        crowd, blocked = self.crowd, np.zeros(len(own), np.bool_)
        if self.block_below is not None:
            counts = crowd.engine.workers(own)
            blocked = (counts.given >= self.block_after) & (counts.accuracy < self.block_below)
        crowd.rule_blocks(own, blocked)
        rows = {number: row for row, number in enumerate(own.tolist())}
        for roster in crowd.roster.partitions.values():
            for name, said in roster.entries.items():
                number = crowd.workers.known(name)
                if said.blocked is not None and number in rows:
                    blocked[rows[number]] = said.blocked
        return int(blocked.sum())


def _pieces(rows: int, at_once: int = ROWS_AT_ONCE) -> Iterator[Ints]:
    for first in range(0, rows, at_once):
        yield np.arange(first, min(first + at_once, rows))
