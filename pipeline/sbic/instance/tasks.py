"""The owner of tasks: votes and descriptions in, posteriors out; stop rules close tasks."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.classes import RETRACT
from sbic.engine.labels import Floats, Ints
from sbic.engine.ratings import ROUNDING, SHARE, within
from sbic.instance.crowd import OPEN, REASONS, Crowd, Rows, by_home, rows_of
from sbic.instance.names import FREE, RecentNames
from sbic.instance.taken import CountedOffsets
from sbic.instance.tiers import UNLIMITED, count_tiers, escalation, last_tier
from sbic.wire.bad import ID_MAX_BYTES
from sbic.wire.changelogs import Fact, Facts, read_facts
from sbic.wire.columns import NO_NAMES, Columns, Names
from sbic.wire.posteriors import PosteriorColumns, encode_posteriors
from sbic.wire.tasks import ParsedDescription
from sbic.wire.votes import ManyVotes, VotesReader

CONFIDENT, LABELS, EXHAUSTED, ESCALATED = map(
    REASONS.index, ("confident", "labels", "exhausted", "escalated")
)
NEVER_ENOUGH = inf


class StopRules(NamedTuple):
    """The rules that close a task; `None` for a rule that is not set.

    `width` is that of the interval of ordered classes. `cost` is a budget in units of money; with
    `escalates` a task goes from tier to tier of workers, after `tier_labels` labels of each (see
    `tiers`).

    What `error` needs depends on all tasks: `enough` is the confidence that is enough for it now
    (see `survey.enough_for`).

    >>> rules = StopRules(confidence=0.9, labels=5)
    >>> [REASONS[k] for k in rules.reasons(np.array([0.95, 0.6, 0.6]), np.array([2, 5, 4]))]
    ['confident', 'labels', None]
    """

    confidence: float | None = None
    labels: int | None = None
    budget: int | None = None
    error: float | None = None
    cost: int | None = None
    escalates: bool = False
    tier_labels: int | None = None
    width: int | None = None

    @property
    def are_set(self) -> bool:
        """Whether any task can be closed by a rule."""
        rules = self.confidence, self.labels, self.budget, self.error, self.cost, self.width
        return self.escalates or any(rule is not None for rule in rules)

    def required(self, enough: float = NEVER_ENOUGH) -> float:
        """Return the confidence with which a task closes."""
        by_error = NEVER_ENOUGH if self.error is None else enough
        return by_error if self.confidence is None else min(self.confidence, by_error)

    def reasons(
        self, sure: Floats, labels: Ints, enough: float = NEVER_ENOUGH, near: Floats | None = None
    ) -> NDArray[np.int8]:
        """Why tasks close, by the probability of the first class and the number of labels.

        `near` is how probable an interval of `width` is.
        """
        reasons = np.full(len(sure), OPEN, np.int8)
        if self.labels is not None:
            reasons[labels >= self.labels] = LABELS
        reasons[sure >= self.required(enough)] = CONFIDENT
        if self.width is not None and near is not None:
            reasons[near >= SHARE - ROUNDING] = CONFIDENT
        return reasons

    def is_doubtful(
        self, sure: Floats, enough: float = NEVER_ENOUGH, near: Floats | None = None
    ) -> NDArray[np.bool_]:
        """Whether the odds of the first class are less than half of what the rules require.

        Not just less, or a task could close and reopen with every label.

        >>> StopRules(confidence=0.9).is_doubtful(np.array([0.85, 0.8])).tolist()
        [False, True]
        """
        required = self.required(enough)
        is_wide = np.ones(len(sure), np.bool_)
        if self.width is not None and near is not None:
            is_wide = 2 * near * (1 - SHARE) < SHARE * (1 - near)
            if required == NEVER_ENOUGH:
                return is_wide
        if required == NEVER_ENOUGH:
            return np.zeros(len(sure), np.bool_)
        doubtful: NDArray[np.bool_] = 2 * sure * (1 - required) < required * (1 - sure)
        return doubtful & is_wide

    def is_promising(self, outlook: Floats) -> NDArray[np.bool_]:
        """Whether the odds that a task tends to are more than twice what the rule requires.

        >>> StopRules(confidence=0.9).is_promising(np.array([0.92, 0.97])).tolist()
        [False, True]
        """
        required = NEVER_ENOUGH if self.confidence is None else self.confidence
        promising: NDArray[np.bool_] = outlook * (1 - required) > 2 * required * (1 - outlook)
        return promising & (required != NEVER_ENOUGH)

    def is_spent(self, labels: int, cost: int = 0) -> bool:
        """Whether this many labels on all tasks, or what they cost, reach the budget."""
        is_spent = self.budget is not None and labels >= self.budget
        return is_spent or (self.cost is not None and cost >= self.cost)


# What the owner of a partition of tasks knows about its votes.


RECENT_MS = 5_000  # a crash can have prevented the publication of posteriors this recent


class TaskPartition:
    """Which votes of a partition have been counted, by labels partition and offset.

    `epoch` increases with every new owner.
    """

    def __init__(self, partitions: int) -> None:
        self.counted = [CountedOffsets() for _ in range(partitions)]
        self.epoch = 0
        # while restoring: offset and epoch of the last fact of each task
        self.described: dict[int, tuple[int, int]] = {}
        self.is_restored = False
        self.restored = RecentNames(RECENT_MS)  # tasks

    def count(self, votes: ManyVotes) -> NDArray[np.bool_]:
        """Count votes; return which of them are new."""
        new = np.zeros(len(votes.offsets), np.bool_)
        sources = votes.by_vote(votes.sources)
        for source in set(votes.sources.tolist()):
            which = sources == source
            new[which] = self.counted[source].add(votes.offsets[which])
        return new


# The task agent's step: votes and descriptions of tasks in, posteriors out.


NO_RULES = StopRules()
BUDGET, REQUEST = map(REASONS.index, ("budget", "request"))
FACTS_BYTES = 1_000_000  # of a record, approximate limit
NO_TASKS = np.empty(0, np.int64)
NOT_YET = (-1, -1)
NO_ROWS = Rows(*[NO_TASKS] * len(Rows._fields))


class Counted(NamedTuple):
    """The result of counting records of votes.

    `votes`: how many there were.
    `fenced`: how many of them were counted before.
    `new`: the indices of records with new votes.
    `timestamps`: those of labels that were new here; labels of own workers were counted when they
    were taken.
    """

    votes: int
    fenced: int
    new: list[int]
    timestamps: Ints


class PosteriorRecords(NamedTuple):
    """Keys and values of records for the posteriors topic."""

    keys: list[bytes]
    values: list[bytes]


class TaskStage:
    """Counts each vote once, applies descriptions of tasks, and closes tasks by the stop rules."""

    def __init__(self, crowd: Crowd, rules: StopRules = NO_RULES) -> None:
        self.crowd = crowd
        self.rules = rules
        self.spent = False
        self.enough = NEVER_ENOUGH  # for `StopRules.error`, by the last survey of all instances
        self.partitions: dict[int, TaskPartition] = {}
        self.priors: dict[int, list[float]] = {}
        self.unwritten: dict[int, dict[int, None]] = {}  # tasks with new facts, by partition
        self.recent: dict[int, Names] = {}  # tasks to publish again after a recovery, by partition
        row = 300 + ID_MAX_BYTES + 20 * len(crowd.classes)
        self.facts_at_once = max(1, FACTS_BYTES // row)

    @property
    def tasks(self) -> int:
        """How many tasks this instance owns."""
        home = self.crowd.task.home[: len(self.crowd.tasks)]
        return int(self.crowd.has_tasks_of[home].sum())

    @property
    def is_restored(self) -> bool:
        """Whether all own tasks are restored; otherwise posteriors would lack labels."""
        return all(state.is_restored for state in self.partitions.values())

    def open(self, partition: int) -> None:
        """Acquire a partition, which has to be restored next."""
        self.partitions[partition] = TaskPartition(self.crowd.partitions)
        self.crowd.open_tasks(partition)

    def close(self, partition: int) -> None:
        """Release a partition."""
        if self.partitions.pop(partition, None) is not None:
            self.crowd.close_tasks(partition)
            self.unwritten.pop(partition, None)
            self.recent.pop(partition, None)

    def restore(self, partition: int, values: Sequence[tuple[int, bytes | None]]) -> None:
        """Apply records of the evidence topic, given with their timestamps."""
        state, classes = self.partitions[partition], len(self.crowd.classes)
        state.is_restored = False
        reader, times = VotesReader(classes), []
        facts: list[tuple[int, Facts]] = []
        for time, value in values:
            record = Columns(value)
            if record.kind == "votes":
                reader.add(record)
                times.append(time)
            else:
                facts.append((time, read_facts(record)))
        votes = reader.read()
        self._restore_votes(state, partition, votes)
        state.restored.add(times, votes.ends, votes.tasks)
        for time, some in facts:
            self._restore_facts(partition, some)
            names = Names.joined([Names.of([fact.task for fact in some.rows]), some.recent])
            state.restored.add([time], np.array([len(names)]), names)

    def _restore_votes(self, state: TaskPartition, partition: int, votes: ManyVotes) -> None:
        """Restore votes, except those that are all in answers being restored."""
        new = state.count(votes)
        restored = votes.by_vote(self.crowd.restores[votes.sources, partition])
        self._put(votes, new & ~restored, defers=True)

    def _put(self, votes: ManyVotes, which: NDArray[np.bool_], *, defers: bool = False) -> Rows:
        """Count some of the votes; labels of own workers are known from answers."""
        if not which.any():
            return NO_ROWS
        votes, which = votes.having(which)
        crowd = self.crowd
        rows = rows_of(votes, crowd.number_tasks, crowd.number_workers)
        has_counts = votes.by_vote(votes.has_counts)
        is_new = which & ~crowd.has_workers_of[rows.sources]
        if has_counts.any():
            used = is_new[has_counts]
            crowd.engine.receive_workers(rows.workers[has_counts][used], votes.counts[used])
        some = is_new & (rows.answers >= RETRACT)
        labels = rows.only(some)
        crowd.engine.put(
            labels.tasks, labels.workers, labels.answers, votes.votes[some], defers=defers
        )
        rows = rows.only(which)
        crowd.counted(rows)
        return rows

    def _restore_facts(self, partition: int, facts: Facts) -> None:
        """Apply facts, unless newer ones of the same task are known.

        An instance that was stalled may have written outdated ones.
        """
        state, task = self.partitions[partition], self.crowd.task
        state.epoch = max(state.epoch, facts.epoch)
        numbers = self.crowd.number_tasks([fact.task for fact in facts.rows])
        for i, fact in zip(numbers.tolist(), facts.rows, strict=True):
            when = fact.offset, facts.epoch
            if when < state.described.get(i, NOT_YET):
                continue
            state.described[i] = when
            if fact.prior != self.priors.get(i):
                self._set_prior(i, fact.prior)
            if fact.gold is not None or self.crowd.engine.is_gold(i):
                self.crowd.engine.set_gold(i, fact.gold)
            task.reason[i] = REASONS.index(fact.reason)
            task.reopened[i] = fact.reopened
            task.described[i] = fact.offset
            task.kept_at[i], task.decided[i] = fact.kept_at, fact.decided
            task.updated_at[i] = max(task.updated_at[i], fact.updated_at)
        self.crowd.changed.add(numbers)

    def count(self, partition: int, values: Sequence[bytes | None]) -> Counted:
        """Count the votes in records of a partition.

        Their tasks are published even if they have not moved: posteriors may be missing for labels
        that were known here before a recovery, or before another instance acquired their worker.
        """
        reader = VotesReader(len(self.crowd.classes))
        for value in values:
            reader.add(Columns(value))
        votes = reader.read()
        new = self.partitions[partition].count(votes)
        sources = votes.by_vote(votes.sources)
        is_own = self.crowd.has_workers_of[sources]
        counted = self._put(votes, new & ~is_own)
        # another instance may have owned the tasks then
        known = new & is_own & (votes.offsets <= self.crowd.taken_before[sources])
        self.crowd.touched.add(counted.tasks)
        self.crowd.touched.add(self._put(votes, known).tasks)
        with_new = np.unique(votes.by_vote(np.arange(len(values)))[new]).tolist()
        fenced = len(new) - int(new.sum())
        return Counted(len(new), fenced, with_new, counted.timestamps)

    def count_own(self, partition: int, source: int, offsets: Ints) -> None:
        """Note that votes of own workers are counted: their labels were taken here."""
        self.partitions[partition].counted[source].add(offsets)

    def describe(
        self, partition: int, description: ParsedDescription, offset: int, timestamp: int
    ) -> None:
        """Apply a record of the tasks topic, unless it was applied before."""
        i = int(self.crowd.number_tasks([description["task"]])[0])
        task = self.crowd.task
        if task.described[i] >= offset:
            return
        task.described[i] = offset
        task.updated_at[i] = max(task.updated_at[i], timestamp)
        if "prior" in description:
            self._set_prior(i, description["prior"])
        if "gold" in description:
            self.crowd.engine.set_gold(i, description["gold"])
        if "status" in description and offset > task.decided[i]:
            self._set_status(i, description["status"])
        self.crowd.changed.add([i])
        self.crowd.touched.add([i])
        self.unwritten.setdefault(partition, {})[i] = None

    def _set_prior(self, i: int, prior: list[float] | None) -> None:
        if prior is None:
            self.priors.pop(i, None)
        else:
            self.priors[i] = prior
        self.crowd.engine.set_prior(i, prior)

    def _set_status(self, i: int, status: str | None) -> None:
        task = self.crowd.task
        if status == "closed":
            task.reason[i], task.reopened[i] = REQUEST, False
        elif status is None:
            task.reason[i], task.reopened[i] = OPEN, False
        elif task.reason[i] != OPEN:
            task.reason[i], task.reopened[i] = OPEN, True

    def sure_of(self, tasks: Ints) -> Floats:
        """Return the confidence of each task; the class prior alone gives none."""
        return self._sure_of(tasks, 0)

    def _sure_of(self, tasks: Ints, width: int) -> Floats:
        """Return the probability of the most probable class, or of `width` more beside it."""
        beliefs = self.crowd.engine.beliefs(tasks)
        sure = within(beliefs, width) if width else beliefs.max(axis=1, initial=0.0)
        sure[self.crowd.engine.is_blank(tasks)] = 0.0
        return sure

    def rules_apply_to(self, tasks: Ints) -> NDArray[np.bool_]:
        """Which of these tasks the rules concern: not gold, and none that a user has reopened."""
        applies: NDArray[np.bool_] = ~self.crowd.task.reopened[tasks]
        return applies & (self.crowd.engine.golds(tasks) < 0)

    def apply_rules(self, tasks: Ints) -> Ints:
        """Close or reopen tasks by the rules; return those that changed."""
        if not self.rules.are_set or not len(tasks):
            return NO_TASKS
        task, engine = self.crowd.task, self.crowd.engine
        sure, applies = self.sure_of(tasks), self.rules_apply_to(tasks)
        near = None if self.rules.width is None else self._sure_of(tasks, self.rules.width)
        reasons = self.rules.reasons(sure, engine.label_counts(tasks), self.enough, near)
        was = task.reason[tasks]
        opens = applies & (was == CONFIDENT) & (reasons == OPEN) & engine.is_settled
        opens &= self.rules.is_doubtful(sure, self.enough, near) & (not self.spent)
        if self.rules.escalates:
            is_used_up = self._escalate(tasks, applies)
            reasons[is_used_up & (reasons == OPEN)] = ESCALATED
            opens |= applies & (was == ESCALATED) & ~is_used_up & (not self.spent)
        elif self.rules.confidence is not None and near is None and engine.is_settled:
            is_exhausted = applies & (was == EXHAUSTED)
            asked = np.flatnonzero(
                is_exhausted | (applies & (was == OPEN) | opens) & (reasons == OPEN)
            )
            outlook = engine.outlook(tasks[asked])
            opens[asked] |= is_exhausted[asked] & self.rules.is_promising(outlook)
            hopeless = asked[(outlook < self.rules.confidence) & ~is_exhausted[asked]]
            reasons[hopeless] = EXHAUSTED
        if self.spent:
            reasons[reasons == OPEN] = BUDGET
        opens &= task.updated_at[tasks] >= task.kept_at[tasks]  # not by a recount alone
        closes = (applies & (was == OPEN) | opens) & (reasons != OPEN)
        opens &= reasons == OPEN
        task.reason[tasks[closes]] = reasons[closes]
        task.reason[tasks[opens]] = OPEN
        changed: Ints = tasks[closes | opens]
        self.crowd.changed.add(changed)
        for i, home in zip(changed.tolist(), task.home[changed].tolist(), strict=True):
            self.unwritten.setdefault(home, {})[i] = None
        return changed

    def _escalate(self, tasks: Ints, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Set the tier that each task is offered to; return whether all tiers are used up.

        Tasks that no rule closes are offered to the last tier then.
        """
        crowd, engine, rules = self.crowd, self.crowd.engine, self.rules
        members = crowd.standings.members
        columns = crowd.worker.tier, crowd.worker.member
        counts = count_tiers(engine, tasks, *columns, crowd.skips_of(tasks))
        is_hopeless = np.zeros(len(tasks), np.bool_)
        if rules.confidence is not None:
            is_hopeless = engine.outlook(tasks) < rules.confidence
        tiers, left = escalation(counts, members, rules.tier_labels, is_hopeless)
        is_used_up: NDArray[np.bool_] = tiers == 0
        stays = is_used_up & ~applies
        tiers[stays], left[stays] = last_tier(members), UNLIMITED
        moved = tasks[(crowd.task.tier[tasks] != tiers) | (crowd.task.left[tasks] != left)]
        crowd.task.tier[tasks], crowd.task.left[tasks] = tiers, left
        if not crowd.is_alone:
            crowd.touched.add(moved)  # others have to know
        crowd.changed.add(moved)
        return is_used_up

    def check_budget(self) -> bool:
        """Compare labels and costs of all instances with the budget; return whether it changed."""
        was_spent = self.spent
        cost = 0 if self.rules.cost is None else self.crowd.spent
        self.spent = self.rules.is_spent(self.crowd.labels, cost)
        return self.spent is not was_spent

    def apply_rules_to_all(self, partition: int) -> Ints:
        """Apply the rules to all tasks of a partition, since the budget or the rules changed."""
        return self.apply_rules(self.crowd.tasks_of(partition))

    def ready(self, partitions: Iterable[int], generation: int) -> None:
        """Complete the restoration of partitions; posteriors that may be missing are published.

        The epoch is the generation of the group, which has one owner of each partition. It is
        greater than that of any earlier owner, even if Kafka has deleted the group and its
        generations start again.

        Under Fast SBIC posteriors of the last seconds may be missing. Under settled tasks may not
        have been at rest, so all restored tasks are published again.
        """
        missing = self.crowd.moved()
        recent: list[Names] = []
        for partition in partitions:
            state = self.partitions[partition]
            # another owner may have published estimates without writing evidence
            state.epoch = max(state.epoch + (not state.is_restored), generation)
            if not state.is_restored:
                state.is_restored = True
                self.unwritten.setdefault(partition, {})  # writes the epoch for the next owner
                if not self.crowd.engine.is_settled:
                    missing = missing[self.crowd.task.home[missing] != partition]
                recent.append(state.restored.take())
                state.described.clear()
        late = np.unique(self.crowd.tasks.find(Names.joined(recent)))
        late = late[late != FREE]
        late = late[self.crowd.is_own_task(late)]
        # written again, so that they are still recent if another crash prevents their publication
        for home, places in by_home(self.crowd.task.home[late]):
            self.unwritten.setdefault(home, {})
            self.recent[home] = self.crowd.tasks.names_of(late[places])
        self.crowd.touched.add(missing)
        self.crowd.touched.add(late)

    def facts(self) -> Iterator[tuple[int, Facts]]:
        """Remove and return the facts that are not written yet, with their partitions."""
        unwritten, self.unwritten = self.unwritten, {}
        for partition, tasks in unwritten.items():
            epoch = self.partitions[partition].epoch
            numbers, recent = list(tasks), self.recent.pop(partition, NO_NAMES)
            for first in range(0, max(1, len(numbers), len(recent)), self.facts_at_once):
                end = first + self.facts_at_once
                some = numbers[first:end]
                golds = self.crowd.engine.golds(some).tolist()
                yield (
                    partition,
                    Facts(
                        epoch,
                        list(map(self._fact, some, golds)),
                        recent.part(min(first, len(recent)), end),
                    ),
                )

    def _fact(self, i: int, gold: int) -> Fact:
        task = self.crowd.task
        return Fact(
            self.crowd.tasks.names[i],
            self.priors.get(i),
            None if gold < 0 else gold,
            REASONS[task.reason[i]],
            bool(task.reopened[i]),
            int(task.described[i]),
            int(task.updated_at[i]),
            int(task.kept_at[i]),
            int(task.decided[i]),
        )

    def posteriors(self, tasks: Ints) -> PosteriorRecords:
        """Return the current posteriors of these tasks."""
        crowd, engine = self.crowd, self.crowd.engine
        task, numbers = crowd.task, tasks.tolist()
        names = [crowd.tasks.names[i] for i in numbers]
        columns = PosteriorColumns(
            names,
            engine.beliefs(tasks),
            engine.evidence(tasks),
            engine.label_counts(tasks),
            task.updated_at[tasks],
            task.sources[tasks],
            task.described[tasks],
            [REASONS[reason] for reason in task.reason[tasks].tolist()],
            task.reopened[tasks],
            engine.golds(tasks),
            [self.priors.get(i) for i in numbers],
            engine.effective_votes(tasks) if engine.is_settled else None,
        )
        values = encode_posteriors(crowd.classes, columns)
        return PosteriorRecords(list(map(str.encode, names)), values)
