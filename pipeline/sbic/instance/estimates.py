"""The estimates that instances publish to each other, so that each knows all tasks and workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sbic.engine.copies import NO_PAIRS, Pairs
from sbic.engine.labels import Floats, Ints
from sbic.engine.state import Sums
from sbic.instance.crowd import NEVER, OPEN, TaskColumns, WorkerColumns, by_home
from sbic.instance.names import NameTable, with_room
from sbic.instance.tasks import TaskStage
from sbic.instance.tiers import Listed
from sbic.wire.estimates import (
    Ask,
    Beliefs,
    Counts,
    Estimates,
    Findings,
    Numbered,
    PairCounts,
    Rest,
    Said,
    Shares,
    Skips,
    Spent,
    Whole,
    encode_estimates,
    parse_estimates,
)

# The numbers of tasks, or of workers, in published estimates.
#
# Parsing and looking up names would cost more than everything else in an estimate. So an owner
# numbers its tasks and workers, publishes each name once, and then only its number. It starts again
# after every rebalance, when all instances consume from the first name on.


class Numbering:
    """The numbers of tasks, or of workers, in all partitions: published and received ones."""

    def __init__(
        self,
        ids: NameTable,
        number: Callable[[Sequence[str]], Ints],
        columns: TaskColumns | WorkerColumns,
        partitions: int,
    ) -> None:
        self.ids = ids
        self.number = number
        self.columns = columns
        self.published = [0] * partitions
        self.received = [Received() for _ in range(partitions)]

    def begin(self, partition: int, all_of_it: Ints) -> None:
        """Publish every name of an own partition again."""
        self.columns.published_as[all_of_it] = NEVER
        self.published[partition] = 0

    def publish(self, partition: int, some: Ints) -> Numbered:
        """Return the numbers of some of an own partition, with the names that are new."""
        published_as, first = self.columns.published_as, self.published[partition]
        new = some[published_as[some] == NEVER]
        self.published[partition] += len(new)
        published_as[new] = np.arange(first, self.published[partition])
        return Numbered(first, [self.ids.names[i] for i in new.tolist()], published_as[some])

    def receive(self, partition: int, numbered: Numbered) -> Ints | None:
        """Get the own numbers for another instance's; None if its first names were not received."""
        received = self.received[partition]
        if numbered.first != received.count and (numbered.first or not numbered.names):
            return None
        new = self.number(numbered.names)
        received.add(numbered.first, new)
        found: Ints = received.numbers[numbered.numbers]
        return found


class Received:
    """The own number for each number of another instance."""

    def __init__(self) -> None:
        self.count = 0
        self.numbers = np.zeros(0, np.int64)

    def add(self, first: int, new: Ints) -> None:
        """Add own numbers for the other instance's numbers from `first` on."""
        self.count = first + len(new)
        self.numbers = with_room(self.numbers, self.count)
        self.numbers[first : self.count] = new


RECORD_BYTES = 700_000  # at most, with names of maximal length

EstimateRecords = dict[int, list[bytes]]
"""Records for the estimates topic, by partition."""


class Exchange:
    """Encodes estimates of own tasks and workers, and applies those of the others.

    The owner of a partition of tasks also owns the same partition of workers. An instance publishes
    its part in the sums over the crowd in its lowest partition, and zeros in the others, so that
    the sums of all partitions are those of all instances.
    """

    def __init__(self, stage: TaskStage) -> None:
        self.stage = stage
        self.crowd = stage.crowd
        self.epochs = [-1] * self.crowd.partitions
        self.sums: dict[int, Sums] = {}
        self.findings: dict[int, Findings] = {}  # of other instances
        self.own_findings: Findings | None = None
        self.pairs: dict[int, Pairs] = {}
        self.early_shares: list[tuple[Ints, Ints, Floats]] = []  # of labels yet to be restored
        self.received = np.zeros(self.crowd.partitions, np.bool_)
        self.told_spent = [0] * self.crowd.partitions
        self.ahead: dict[int, list[bytes | None]] = {}  # of the next owners of own partitions
        self.is_requested = False  # another instance requests complete estimates
        self.tasks = Numbering(
            self.crowd.tasks, self.crowd.number_tasks, self.crowd.task, self.crowd.partitions
        )
        self.workers = Numbering(
            self.crowd.workers, self.crowd.number_workers, self.crowd.worker, self.crowd.partitions
        )
        row = 300 + 8 * len(self.crowd.classes) ** 2
        self.rows_at_once = max(1, RECORD_BYTES // row)

    @property
    def missing(self) -> list[int]:
        """The partitions of other instances without complete estimates yet."""
        found: list[int] = np.flatnonzero(~(self.received | self.crowd.has_tasks_of)).tolist()
        return found

    def release(self, partition: int) -> None:
        """Release a partition, whose estimates are all known here."""
        self.received[partition] = True
        self.epochs[partition] = self.stage.partitions[partition].epoch + 1  # the next owner's

    def estimates_of(self, tasks: Ints, workers: Ints) -> EstimateRecords:
        """Return the estimates of these own tasks and workers, and the sums."""
        records: EstimateRecords = {}
        if self.crowd.is_alone or not self.stage.partitions:
            return records
        for partition in self.stage.partitions:
            self._add_said(partition, self.crowd.standings.take_unsaid(partition), records)
            self._add_skips(partition, self.crowd.unsaid_skips.pop(partition, []), records)
        self._add_spent(records)
        self._add_tasks(tasks, records)
        if self.crowd.engine.is_settled:
            self._add_workers(workers, records)
            self._add(records, self._lowest_partition(), self.crowd.engine.take_sums())
            if self.crowd.engine.tally.has_news:
                self._add_pairs(records)
        return records

    def all_estimates(self) -> EstimateRecords:
        """Return the estimates of all own tasks and workers."""
        records: EstimateRecords = {}
        if self.crowd.is_alone:
            return records
        nothing = Sums(*(np.zeros_like(column) for column in self.crowd.engine.sums))
        for partition in self.stage.partitions:
            tasks, workers = self.crowd.tasks_of(partition), self.crowd.workers_of(partition)
            self.crowd.standings.unsaid.pop(partition, None)
            said = self.crowd.standings.by_worker[partition]
            self._add_said(partition, said, records, replaces=True)
            self.crowd.unsaid_skips.pop(partition, None)
            skips = (
                (worker, task)
                for worker in workers.tolist()
                for task in self.crowd.skipped.get(worker, ())
            )
            self._add_skips(partition, list(skips), records)
            self.told_spent[partition] = NEVER
            self.tasks.begin(partition, tasks)
            self.workers.begin(partition, workers)
            self._add_tasks(tasks, records)
            if self.crowd.engine.is_settled:
                self._add_workers(workers, records)
            is_lowest = partition == self._lowest_partition()
            if is_lowest:
                self._add_pairs(records)
            else:
                self._add(records, partition, self._pair_counts(NO_PAIRS))
            self._add_spent(records, [partition])
            self._add(
                records, partition, Whole(self.crowd.engine.take_sums() if is_lowest else nothing)
            )
        return records

    def rest(self, is_at_rest: bool) -> EstimateRecords:
        """Get the records that report whether this instance is at rest, and its last findings."""
        records = self.report()
        if self.stage.partitions:
            rest = Rest(is_at_rest, self.crowd.engine.due)
            self._add(records, self._lowest_partition(), rest)
        return records

    def report(self) -> EstimateRecords:
        """Return the record of the last findings of this instance."""
        records: EstimateRecords = {}
        if self.stage.partitions and self.own_findings is not None:
            self._add(records, self._lowest_partition(), self.own_findings)
        return records

    def all_findings(self) -> Findings | None:
        """Return the findings of all instances together; None before the first own ones."""
        found, own = self.own_findings, self.crowd.has_tasks_of
        for partition, others in self.findings.items():
            if found is not None and not own[partition]:
                found = found.plus(others)
        return found

    def request(self) -> EstimateRecords:
        """Return the record that requests complete estimates from the others."""
        records: EstimateRecords = {}
        if self.stage.partitions:
            self._add(records, self._lowest_partition(), Ask())
        return records

    def take_request(self) -> bool:
        """Whether another instance requests complete estimates; it counts as answered now."""
        was_requested, self.is_requested = self.is_requested, False
        return was_requested

    def _lowest_partition(self) -> int:
        return min(self.stage.partitions)

    def _add(self, records: EstimateRecords, partition: int, estimates: Estimates) -> None:
        epoch = self.stage.partitions[partition].epoch
        records.setdefault(partition, []).append(encode_estimates(epoch, estimates))

    @property
    def has_news(self) -> bool:
        """Whether others do not know yet what is said of own workers, or what they cost."""
        crowd = self.crowd
        is_said = not crowd.standings.unsaid and not (self._escalates and crowd.unsaid_skips)
        return not is_said or bool(self._newly_spent(self.stage.partitions))

    @property
    def _escalates(self) -> bool:
        return self.stage.rules.escalates

    def _newly_spent(self, partitions: Iterable[int]) -> list[int]:
        """Those of these partitions whose workers cost other than what was told."""
        _ = self.crowd.spent
        now, told = self.crowd.spent_by, self.told_spent
        return [partition for partition in partitions if now[partition] != told[partition]]

    def _add_spent(self, records: EstimateRecords, partitions: Iterable[int] | None = None) -> None:
        every = list(self.stage.partitions if partitions is None else partitions)
        for partition in self._newly_spent(every):
            units = self.told_spent[partition] = int(self.crowd.spent_by[partition])
            self._add(records, partition, Spent(units))

    def _add_said(
        self,
        partition: int,
        said: Mapping[str, Listed],
        records: EstimateRecords,
        *,
        replaces: bool = False,
    ) -> None:
        """Add what is said of workers; with `replaces`, also that nothing is said of others."""
        names, rows_at_once = list(said), max(1, self.rows_at_once // 2)  # two names in a row
        for start in range(0, max(len(names), int(replaces)), rows_at_once):
            part = names[start : start + rows_at_once]
            columns = list(zip(*(said[name] for name in part), strict=True)) or [()] * 5
            tiers, members, units, groups, barred = columns
            group_names = sorted(set(groups))
            self._add(
                records,
                partition,
                Said(
                    part,
                    np.array(tiers, np.int8),
                    np.array(members, np.bool_),
                    np.array(units, np.int64),
                    group_names,
                    np.array([group_names.index(group) for group in groups], np.int32),
                    np.array(barred, np.bool_),
                    replaces and not start,
                ),
            )

    def _add_skips(
        self, partition: int, skips: Sequence[tuple[int, int]], records: EstimateRecords
    ) -> None:
        if not self._escalates:  # nobody else needs them
            return
        rows_at_once = max(1, self.rows_at_once // 2)
        for start in range(0, len(skips), rows_at_once):
            workers, tasks = np.array(skips[start : start + rows_at_once], np.int64).T
            known, places = np.unique(workers, return_inverse=True)
            of_tasks, task_places = np.unique(tasks, return_inverse=True)
            names = (
                list(self.crowd.workers.names_of(known)),
                list(self.crowd.tasks.names_of(of_tasks)),
            )
            self._add(records, partition, Skips(*names, np.column_stack((places, task_places))))

    def _add_tasks(self, tasks: Ints, records: EstimateRecords) -> None:
        crowd, engine = self.crowd, self.crowd.engine
        for home, some in self._by_home(tasks, crowd.task.home):
            self._add_shares(home, some, records)
            beliefs = Beliefs(
                self.tasks.publish(home, some),
                engine.label_counts(some).astype(np.int32),
                engine.golds(some).astype(np.int16),
                crowd.task.reason[some] == OPEN,
                engine.votes(some),
                engine.inner_scores(some),
                crowd.task.tier[some],
                crowd.task.left[some],
            )
            self._add(records, home, beliefs)

    def _add_shares(self, home: int, tasks: Ints, records: EstimateRecords) -> None:
        """Add the shares of votes on these tasks, before their beliefs: these depend on them."""
        places, workers, shares = self.crowd.engine.shares_of(tasks)
        rows_at_once = max(1, self.rows_at_once // 2)  # a row may add two names
        for start in range(0, len(places), rows_at_once):
            part = slice(start, start + rows_at_once)
            known, columns = np.unique(workers[part], return_inverse=True)
            numbered = self.tasks.publish(home, np.unique(tasks[places[part]]))
            numbers = self.crowd.task.published_as[tasks[places[part]]]
            names = list(self.crowd.workers.names_of(known))
            rows = numbered._replace(numbers=numbers)
            self._add(records, home, Shares(rows, names, columns.astype(np.int32), shares[part]))

    def _add_pairs(self, records: EstimateRecords) -> None:
        """Add this instance's counts of pairs: those that fit into a record, most in common first.

        Others tell of the pairs that are named here, and the other way round.
        """
        pairs = self.crowd.engine.tally.take()
        pairs = pairs.only(np.argsort(-pairs.same, kind="stable"))
        while self._size_of(pairs) > RECORD_BYTES:
            pairs = pairs.only(np.arange(len(pairs.first) // 2))
        self._add(records, self._lowest_partition(), self._pair_counts(pairs))

    def _size_of(self, pairs: Pairs) -> int:
        names = np.union1d(pairs.first, pairs.second)
        return 33 * len(pairs.first) + 3 * len(names) + len(self.crowd.workers.names_of(names).text)

    def _pair_counts(self, pairs: Pairs) -> PairCounts:
        known = np.union1d(pairs.first, pairs.second)
        columns = (np.searchsorted(known, column) for column in (pairs.first, pairs.second))
        first, second = (column.astype(np.int32) for column in columns)
        both, same = pairs.both.astype(np.int32), pairs.same.astype(np.int32)
        names = list(self.crowd.workers.names_of(known))
        return PairCounts(names, first, second, both, same, *pairs[4:])

    def _add_workers(self, workers: Ints, records: EstimateRecords) -> None:
        crowd = self.crowd
        for home, some in self._by_home(workers, crowd.worker.home):
            counts = Counts(self.workers.publish(home, some), crowd.engine.counts(some))
            self._add(records, home, counts)

    def _by_home(self, numbers: Ints, homes: NDArray[np.int32]) -> Iterator[tuple[int, Ints]]:
        """Yield the numbers by home partition, in pieces that fit into a record."""
        for home, places in by_home(homes[numbers]):
            for start in range(0, len(places), self.rows_at_once):
                yield home, numbers[places[start : start + self.rows_at_once]]

    def receive(self, partition: int, value: bytes | None) -> None:
        """Apply a record of a partition's owner; late records of a former owner are ignored.

        If this instance was stalled, another may own its partitions already.
        """
        epoch, estimates = parse_estimates(value, len(self.crowd.classes))
        if self.crowd.has_tasks_of[partition]:
            if epoch > self.stage.partitions[partition].epoch:
                self.ahead.setdefault(partition, []).append(value)
        elif epoch >= self.epochs[partition]:
            self._receive(partition, estimates)
            self.epochs[partition] = epoch

    def receive_from_next_owner(self, partition: int) -> None:
        """Apply what the next owner has published before this instance released a partition.

        An owner publishes everything only once. If this instance was stalled, that may be long ago.
        """
        for value in self.ahead.pop(partition, []):
            self.receive(partition, value)

    def _receive(self, partition: int, estimates: Estimates) -> None:
        match estimates:
            case Beliefs():
                self._receive_tasks(partition, estimates)
            case Counts():
                workers = self.workers.receive(partition, estimates.workers)
                if workers is not None:
                    self.crowd.engine.receive_workers(workers, estimates.counts)
            case Findings():
                self.findings[partition] = estimates
            case PairCounts():
                self._receive_pairs(partition, estimates)
            case Shares():
                tasks = self.tasks.receive(partition, estimates.tasks)
                if tasks is not None:
                    workers = self.crowd.number_workers(estimates.names)[estimates.workers]
                    self.crowd.engine.receive_shares(tasks, workers, estimates.shares)
                    if self.crowd.restores.any():
                        self.early_shares.append((tasks, workers, estimates.shares))
            case Said():
                self._receive_said(partition, estimates)
            case Skips():
                workers = self.crowd.number_workers(estimates.workers)
                tasks = self.crowd.number_tasks(estimates.tasks)
                for worker, task in estimates.pairs.tolist():
                    self.crowd.skip(int(workers[worker]), int(tasks[task]))
            case Spent():
                self.crowd.spent_by[partition] = estimates.units
            case Whole():
                self.received[partition] = True
                self.findings.pop(partition, None)  # its owner may report in another one
                self._receive_sums(partition, estimates.sums)
            case Sums():
                self._receive_sums(partition, estimates)
            case Ask():
                self.is_requested = True

    def _receive_said(self, partition: int, said: Said) -> None:
        groups = [said.group_names[place] for place in said.groups.tolist()]
        columns = said.tiers.tolist(), said.are_members.tolist(), said.units.tolist()
        rows = zip(*columns, groups, said.are_barred.tolist(), strict=True)
        standings = dict(zip(said.names, (Listed(*row) for row in rows), strict=True))
        self.crowd.say(partition, standings, replaces=said.replaces)

    def _receive_tasks(self, partition: int, estimates: Beliefs) -> None:
        crowd = self.crowd
        tasks = self.tasks.receive(partition, estimates.tasks)
        if tasks is None:
            return
        crowd.task.remote_labels[tasks] = estimates.labels
        crowd.task.reason[tasks] = np.where(estimates.is_open, OPEN, 1)
        crowd.task.tier[tasks], crowd.task.left[tasks] = estimates.tiers, estimates.left
        crowd.engine.receive_tasks(tasks, estimates.scores, estimates.gold, estimates.votes)
        crowd.changed.add(tasks)

    def _receive_pairs(self, partition: int, counts: PairCounts) -> None:
        numbers = self.crowd.number_workers(counts.names)
        one, other = numbers[counts.first], numbers[counts.second]
        both, same = counts.both.astype(np.int64), counts.same.astype(np.int64)
        first, second = np.minimum(one, other), np.maximum(one, other)
        errors = counts.alike, counts.either
        self.pairs[partition] = Pairs(first, second, both, same, *errors, counts.named)
        self.update_pairs()

    def _receive_sums(self, partition: int, sums: Sums) -> None:
        self.sums[partition] = sums
        self.update_sums()

    def update_sums(self) -> None:
        """Set the sums over the crowd to those of the partitions of other instances."""
        own = self.crowd.has_tasks_of
        others = [sums for partition, sums in self.sums.items() if not own[partition]]
        self.crowd.engine.receive_sums(others)

    def apply_early_shares(self) -> None:
        """Apply again the shares that came while labels were restored."""
        early, self.early_shares = self.early_shares, []
        for shares in early:
            self.crowd.engine.receive_shares(*shares)

    def update_pairs(self) -> None:
        """Set the counts of pairs to those of the partitions of other instances."""
        own = self.crowd.has_tasks_of
        others = [pairs for partition, pairs in self.pairs.items() if not own[partition]]
        if self.crowd.engine.is_settled:
            self.crowd.engine.receive_pairs(others, float(own.mean()))
