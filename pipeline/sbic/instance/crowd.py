"""The state of one instance: the engine, tasks and workers by name, their owners, what changed.

Partition p of tasks and of workers is owned by one instance. It has every label on its own tasks
and computes their beliefs; it has every label of its own workers and keeps their counts. The
other instances publish theirs (`exchange`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sbic.classes import Classes
from sbic.engine.compiled import kernel
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints
from sbic.engine.state import Overview
from sbic.instance.names import NameTable, with_room
from sbic.instance.tiers import ALL_TIERS, UNKNOWN, Listed, Standings
from sbic.wire.columns import Names
from sbic.wire.partitions import homes_of, partition_of
from sbic.wire.posteriors import CLOSE_REASONS, CloseReason
from sbic.wire.votes import REPEAT, ManyVotes
from sbic.wire.workers import NOTHING_SAID, Roster


class Changes:
    """An ordered set of numbers, filled and emptied by arrays.

    >>> changes = Changes()
    >>> changes.add([3, 1, 3])
    >>> changes.add([1, 2])
    >>> len(changes), 2 in changes, changes.take(2).tolist(), changes.take().tolist()
    (3, True, [3, 1], [2])
    """

    def __init__(self) -> None:
        self._is_in = np.zeros(0, np.bool_)
        self._numbers = np.zeros(0, np.int64)
        self._first = self._end = 0  # of those that are in, among the numbers

    def __len__(self) -> int:
        return self._end - self._first

    def __contains__(self, number: int) -> bool:
        return number < len(self._is_in) and bool(self._is_in[number])

    def add(self, numbers: ArrayLike) -> None:
        """Add numbers."""
        given = np.array(numbers, np.int64)  # contiguous: the kernel is compiled once
        done, self._end = _add(given, 0, self._is_in, self._numbers, self._end)
        while done < len(given):
            self._make_room(given[done:])
            done, self._end = _add(given, done, self._is_in, self._numbers, self._end)

    def take(self, most: int | None = None) -> Ints:
        """Remove and return the first `most` numbers, or all."""
        end = self._end if most is None else min(self._first + most, self._end)
        taken = self._numbers[self._first : end].copy()
        self._is_in[taken] = False
        self._first = end
        if self._first == self._end:
            self._first = self._end = 0
        return taken

    def _make_room(self, numbers: Ints) -> None:
        self._is_in = with_room(self._is_in, int(numbers.max()) + 1)
        left = self._numbers[self._first : self._end]
        self._numbers = with_room(left, len(left) + len(numbers))
        self._first, self._end = 0, len(left)


@kernel
def _add(
    given: Ints, done: int, is_in: NDArray[np.bool_], numbers: Ints, end: int
) -> tuple[int, int]:
    """Add numbers from the index `done` on while there is room; return where it ended."""
    while done < len(given):
        number = given[done]
        if number >= len(is_in) or end == len(numbers):
            break
        if not is_in[number]:
            is_in[number] = True
            numbers[end] = number
            end += 1
        done += 1
    return done, end


# Labels as columns, the input of the stages, and their conversion from records of votes.


Numbers = Callable[[Names], Ints]
"""Returns the numbers of names."""


class Rows(NamedTuple):
    """Labels as columns; `sources` are the partitions of their offsets."""

    tasks: Ints
    workers: Ints
    answers: Ints
    offsets: Ints
    timestamps: Ints
    sources: Ints

    def only(self, which: NDArray[np.bool_] | Ints) -> "Rows":
        """Return some of the rows."""
        return Rows(*(column[which] for column in self))


def by_home(homes: NDArray[np.integer[Any]]) -> Iterator[tuple[int, Ints]]:
    """Yield the positions of each partition, in order.

    >>> [(home, places.tolist()) for home, places in by_home(np.array([3, 1, 3]))]
    [(1, [1]), (3, [0, 2])]
    """
    order = np.argsort(homes, kind="stable")
    found = homes[order]
    starts = np.flatnonzero(found[1:] != found[:-1]) + 1
    if len(order):
        for places in np.split(order, starts):
            yield int(homes[places[0]]), places


def rows_of(votes: ManyVotes, number_tasks: Numbers, number_workers: Numbers) -> Rows:
    """All votes as columns."""
    return Rows(
        number_tasks(votes.tasks),
        number_workers(votes.workers),
        votes.answers.astype(np.int64),
        votes.offsets,
        votes.timestamps,
        votes.by_vote(votes.sources),
    )


OPEN = 0
"""In place of a reason to be closed; the reasons are numbered from 1."""
REASONS: tuple[CloseReason | None, ...] = (None, *CLOSE_REASONS)

NEVER = -1


class TaskColumns:
    """The columns of tasks besides their beliefs, a row for each task.

    `home`: the partition.
    `reason`: why the task is closed, or OPEN.
    `reopened`: whether stop rules no longer apply.
    `remote_labels`: its number of labels, if another instance owns it.
    `published_as`: its number in estimates, if this instance owns it (see `numbering`).
    `described`: the offset of the last record of the tasks topic that was applied.
    `kept_at`: when a recount has kept it closed or reopened; 0 if none has.
    `decided`: the offset of the last description that counts for that.
    `tier`: the tier that it is offered to, 0 for none, and `left`, how many more labels of it; only
    where tasks escalate (see `tiers`).
    `updated_at`: the timestamp of the newest label or description.
    `sources`: for each labels partition, the offset after the last label.
    """

    def __init__(self, partitions: int) -> None:
        self.home = np.zeros(0, np.int32)
        self.reason = np.zeros(0, np.int8)
        self.reopened = np.zeros(0, np.bool_)
        self.remote_labels = np.zeros(0, np.int32)
        self.published_as = np.zeros(0, np.int32)
        self.described = np.zeros(0, np.int64)
        self.kept_at = np.zeros(0, np.int64)
        self.decided = np.zeros(0, np.int64)
        self.tier = np.zeros(0, np.int8)
        self.left = np.zeros(0, np.int32)
        self.updated_at = np.zeros(0, np.int64)
        self.sources = np.zeros((0, partitions), np.int64)

    def begin(self, homes: NDArray[np.int32], first: int) -> None:
        """Add tasks with the numbers from `first` on and these home partitions."""
        _make_room(self, first + len(homes))
        new = slice(first, first + len(homes))
        self.home[new] = homes
        self.described[new] = NEVER
        self.decided[new] = NEVER
        self.published_as[new] = NEVER


class WorkerColumns:
    """The columns of workers besides their counts, as for tasks.

    `last_seen`: the timestamp of their newest label or skip.
    `tier`, `member`: see `tiers`; 0 for those who are no members of theirs, or barred.
    `units`: of money, for each label.
    `by_rule`: whether the rule blocks them, as a survey has found.
    """

    def __init__(self) -> None:
        self.tier = np.zeros(0, np.int8)
        self.member = np.zeros(0, np.int8)
        self.units = np.zeros(0, np.int64)
        self.by_rule = np.zeros(0, np.bool_)
        self.home = np.zeros(0, np.int32)
        self.published_as = np.zeros(0, np.int32)
        self.last_seen = np.zeros(0, np.int64)

    def begin(self, homes: NDArray[np.int32], first: int) -> None:
        """Add workers with the numbers from `first` on and these home partitions."""
        _make_room(self, first + len(homes))
        new = slice(first, first + len(homes))
        self.home[new] = homes
        self.published_as[new] = NEVER
        self.tier[new] = 1


def _make_room(columns: TaskColumns | WorkerColumns, rows: int) -> None:
    for name, column in vars(columns).items():
        setattr(columns, name, with_room(column, rows))


class Crowd:
    """Tasks and workers by name and number, of this instance and of others.

    `changed` has the tasks that have changed since the policy was last updated.

    >>> from sbic.classes import SIGNS
    >>> crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=8)
    >>> crowd.open_tasks(3)
    >>> crowd.number_tasks(["t1", "t2", "t1"]).tolist(), crowd.task.home[:2].tolist()
    ([0, 1, 0], [3, 4])
    >>> crowd.is_own_task([0, 1]).tolist()
    [True, False]
    """

    def __init__(self, engine: Engine, classes: Classes, partitions: int) -> None:
        self.engine = engine
        self.classes = classes
        self.partitions = partitions
        self.tasks = NameTable()
        self.workers = NameTable()
        self.task = TaskColumns(partitions)
        self.worker = WorkerColumns()
        self.skipped: dict[int, set[int]] = {}  # tasks, by worker
        self.skippers: dict[int, set[int]] = {}  # workers, by task
        self.unsaid_skips: dict[int, list[tuple[int, int]]] = {}  # by partition of the worker
        self.roster = Roster()
        self.standings = Standings(partitions)
        self.spent_by = np.zeros(partitions, np.int64)  # units of money, by partition of workers
        self.given_by_tier = np.zeros(ALL_TIERS)  # labels of own workers, by the last survey
        self.right_by_tier = np.zeros(ALL_TIERS)  # how many of them are expected to be right
        self._priced: Ints | None = np.zeros(0, np.int64)  # workers; None if there may be others
        self.has_tasks_of = np.zeros(partitions, np.bool_)
        self.has_workers_of = np.zeros(partitions, np.bool_)
        self.counts_workers_of = np.zeros(partitions, np.bool_)
        # by partition of workers and of tasks: all labels are in the answers being restored
        self.restores = np.zeros((partitions, partitions), np.bool_)
        self.taken_before = np.full(partitions, NEVER, np.int64)  # offsets of restored labels
        self.touched = Changes()  # tasks to publish although they have not moved
        self.changed = Changes()

    @property
    def is_alone(self) -> bool:
        """Whether this instance owns all partitions, so that it need not publish estimates."""
        return bool(self.has_tasks_of.all())

    @property
    def instances(self) -> float:
        """About how many instances share the partitions."""
        return self.partitions / max(1, int(self.has_tasks_of.sum()))

    @property
    def labels(self) -> int:
        """How many labels all tasks have, on all instances."""
        elsewhere = int(self.task.remote_labels.sum()) if not self.is_alone else 0
        return self.engine.labels_here + elsewhere

    def is_own_task(self, tasks: Sequence[int] | Ints) -> NDArray[np.bool_]:
        """Which of these tasks are here."""
        found: NDArray[np.bool_] = self.has_tasks_of[self.task.home[tasks]]
        return found

    def tasks_of(self, partition: int) -> Ints:
        """Return the numbers of the tasks of a partition."""
        return np.flatnonzero(self.task.home[: len(self.tasks)] == partition)

    def workers_of(self, partition: int) -> Ints:
        """Return the numbers of the workers of a partition."""
        return np.flatnonzero(self.worker.home[: len(self.workers)] == partition)

    def number_tasks(self, names: Names | Sequence[str]) -> Ints:
        """Return the numbers of these tasks; new ones get the next."""
        first = len(self.tasks)
        numbers = self.tasks.number(Names.of(names))
        if len(self.tasks) > first:
            homes = homes_of(
                self.tasks.names_of(np.arange(first, len(self.tasks))), self.partitions
            )
            self.task.begin(homes, first)
            self.engine.make_room(len(self.tasks), 0)
            elsewhere = np.flatnonzero(~self.has_tasks_of[homes])
            if len(elsewhere):
                self.engine.release_tasks(first + elsewhere)
        return numbers

    def number_workers(self, names: Names | Sequence[str]) -> Ints:
        """Return the numbers of these workers; new ones get the next."""
        first = len(self.workers)
        numbers = self.workers.number(Names.of(names))
        if len(self.workers) > first:
            homes = homes_of(
                self.workers.names_of(np.arange(first, len(self.workers))), self.partitions
            )
            self.worker.begin(homes, first)
            self.engine.make_room(0, len(self.workers))
            elsewhere = np.flatnonzero(~self.counts_workers_of[homes])
            if len(elsewhere):
                self.engine.release_workers(first + elsewhere)
            if any(self.standings.by_worker):
                self._apply_standings(range(first, len(self.workers)))
        return numbers

    def say(
        self, partition: int, said: Mapping[str, Listed], *, replaces: bool = False
    ) -> dict[str, Listed]:
        """Set standings of workers of a partition; return those that changed."""
        most = self.standings.most_kin
        before = {name: self.standings.of(partition, name).group for name in said}
        changed = self.standings.say(partition, said, replaces=replaces)
        known = map(self.workers.known, changed)
        self._apply_standings([number for number in known if number is not None])
        groups = self.standings.groups
        if self.standings.most_kin == most and not replaces:
            now = (self.standings.of(partition, name).group for name in changed)
            touched = {*before.values(), *now} & groups.keys()
        else:
            touched = set(groups)
        for group in touched:
            self._apply_groups(groups[group])
        return changed

    def _apply_groups(self, members: Mapping[str, int]) -> None:
        """Let the engine know of the group of these workers, whose partitions are given."""
        found = {
            number: self.standings.kin_of(home, name)
            for name, home in members.items()
            if (number := self.workers.known(name)) is not None
        }
        if found:
            self.engine.set_groups(list(found), list(found.values()))

    def say_own(self, partition: int, workers: Iterable[str], *, replaces: bool = False) -> None:
        """Set the standings of own workers by the roster and the rule, for all instances."""
        said: dict[str, Listed] = {}
        for name in workers:
            entry, number = self.roster.of(partition, name), self.workers.known(name)
            by_rule = number is not None and bool(self.worker.by_rule[number])
            said[name] = Listed.of(entry, by_rule) if entry != NOTHING_SAID else UNKNOWN
        changed = self.say(partition, said, replaces=replaces)
        self.standings.unsaid.setdefault(partition, {}).update(dict.fromkeys(changed))

    def rule_blocks(self, workers: Ints, are_blocked: NDArray[np.bool_]) -> None:
        """Note which own workers the rule blocks."""
        changed = workers[self.worker.by_rule[workers] != are_blocked]
        self.worker.by_rule[workers] = are_blocked
        for number in changed.tolist():
            self.say_own(int(self.worker.home[number]), [self.workers.names[number]])

    def _apply_standings(self, workers: Sequence[int] | range) -> None:
        """Set the columns of these workers, and their groups."""
        columns, groups = self.worker, np.empty(len(workers), np.int64)
        for place, j in enumerate(workers):
            found = self.standings.of(int(columns.home[j]), self.workers.names[j])
            columns.tier[j] = found.tier
            columns.member[j] = found.tier if found.is_member and not found.is_barred else 0
            columns.units[j] = found.units
            groups[place] = self.standings.kin_of(int(columns.home[j]), self.workers.names[j])
        if len(workers):
            self.engine.set_groups(np.array(workers, np.int64), groups)
            self._priced = None

    def skip(self, worker: int, task: int) -> None:
        """Note that a worker has skipped a task."""
        known = self.skipped.setdefault(worker, set())
        if task not in known:
            known.add(task)
            self.skippers.setdefault(task, set()).add(worker)
            home = int(self.worker.home[worker])
            if self.has_workers_of[home]:
                self.unsaid_skips.setdefault(home, []).append((worker, task))

    def skips_of(self, tasks: Ints) -> Iterator[tuple[int, int]]:
        """Yield the place of a task among these, and a worker who has skipped it, for each skip."""
        if self.skippers:
            for place, task in enumerate(tasks.tolist()):
                for worker in self.skippers.get(task, ()):
                    yield place, worker

    @property
    def spent(self) -> int:
        """Units of money that all labels cost, on all instances, at the prices of now."""
        if self._priced is None:
            self._priced = np.flatnonzero(self.worker.units[: len(self.workers)])
        homes = self.worker.home[self._priced]
        own = self._priced[self.counts_workers_of[homes]]
        if len(own) or self.spent_by.any():
            self.spent_by[self.counts_workers_of] = 0
            costs = self.engine.given_by(own) * self.worker.units[own]
            np.add.at(self.spent_by, self.worker.home[own], costs)
        return int(self.spent_by.sum())

    def home_of(self, name: str) -> int:
        """Return the partition of a task or worker."""
        return partition_of(name.encode(), self.partitions)

    def open_tasks(self, partition: int) -> None:
        """Acquire a partition of tasks; its evidence has to be restored next."""
        self.has_tasks_of[partition] = True
        tasks = self.tasks_of(partition)
        self.task.remote_labels[tasks] = 0
        self.task.reason[tasks] = OPEN
        self.task.reopened[tasks] = False
        self.task.tier[tasks] = 0
        self.engine.acquire_tasks(tasks)

    def close_tasks(self, partition: int) -> None:
        """Release a partition of tasks: its next owner publishes their estimates.

        Labels of own workers on them stay, including restored ones of workers whose answers are
        still being restored: these are not read again.
        """
        for workers in np.flatnonzero(self.has_workers_of & ~self.counts_workers_of).tolist():
            self.count_workers(workers)
        tasks = self.tasks_of(partition)
        self.task.remote_labels[tasks] = self.engine.label_counts(tasks)
        self.task.sources[tasks] = 0
        self.task.described[tasks] = NEVER
        self.engine.release_tasks(tasks)
        self.has_tasks_of[partition] = False
        self.restores[:, partition] = False

    def open_workers(self, partition: int) -> None:
        """Acquire a partition of workers; their answers have to be restored next.

        Fast SBIC keeps their counts only after that: until then the votes are those in the answers.
        """
        self.has_workers_of[partition] = True
        self.restores[partition] = True
        if self.engine.is_settled:
            self.count_workers(partition)

    def count_workers(self, partition: int) -> None:
        """Start to keep the counts of these workers."""
        self.counts_workers_of[partition] = True
        self.engine.acquire_workers(self.workers_of(partition))

    def close_workers(self, partition: int) -> None:
        """Release a partition of workers: its next owner publishes their estimates."""
        workers = self.workers_of(partition)
        self.engine.release_workers(workers)
        self.has_workers_of[partition] = self.counts_workers_of[partition] = False
        self.restores[partition] = False

    def counted(self, rows: Rows) -> None:
        """Record labels in the columns of their tasks, if owned here.

        A repeat changes nothing, but its task is published, so that the sender sees it processed.
        """
        own = self.is_own_task(rows.tasks)
        if not own.all():
            rows = rows.only(own)
        tasks, _, answers, offsets, timestamps, sources = rows
        repeats = answers == REPEAT
        if repeats.any():
            self.touched.add(tasks[repeats])
            timestamps = np.where(repeats, 0, timestamps)
        # offsets are ascending: if a task has several, numpy keeps the last
        known = self.task.sources[tasks, sources]
        self.task.sources[tasks, sources] = np.maximum(known, offsets + 1)
        np.maximum.at(self.task.updated_at, tasks, timestamps)

    def moved(self, most: int | None = None) -> Ints:
        """Remove and return the own tasks to publish: those that moved or are `touched`.

        With `most`, at most that many of each kind. All are added to `changed`.
        """
        moved = self.engine.moved(most)
        if len(self.touched):
            touched = self.touched.take(most)
            self.engine.tell(touched)
            moved = np.union1d(moved, touched)
        self.changed.add(moved)
        return moved if self.is_alone else moved[self.is_own_task(moved)]

    @property
    def has_moved(self) -> bool:
        """Whether `moved` may return anything."""
        return self.engine.tasks_moved > 0 or len(self.touched) > 0

    def overview(self, tasks: Ints) -> tuple[Overview, NDArray[np.bool_]]:
        """Return what a policy needs to know of tasks, and which are open."""
        found, is_open = self.engine.overview(tasks), np.empty(len(tasks), np.bool_)
        columns = self.task.home, self.task.remote_labels, self.task.reason
        _overlay(tasks, self.has_tasks_of, *columns, found.labels, is_open)
        return found, is_open


@kernel
def _overlay(
    tasks: Ints,
    has_tasks_of: NDArray[np.bool_],
    home: NDArray[np.int32],
    remote_labels: NDArray[np.int32],
    reason: NDArray[np.int8],
    labels: Ints,
    is_open: NDArray[np.bool_],
) -> None:
    """Write which tasks are open, and the labels of those that other instances own.

    A compiled loop: for the few tasks of a request numpy's calls take longer.
    """
    for t in range(len(tasks)):
        i = tasks[t]
        is_open[t] = reason[i] == OPEN
        if not has_tasks_of[home[i]]:
            labels[t] = remote_labels[i]
