"""The estimates that instances publish to each other, so that each knows all tasks and workers."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Ints
from sbic.engine.state import Sums
from sbic.instance.crowd import NEVER, OPEN, TaskColumns, WorkerColumns, by_home
from sbic.instance.names import NameTable, with_room
from sbic.instance.tasks import TaskStage
from sbic.wire.estimates import (
    Ask,
    Beliefs,
    Counts,
    Estimates,
    Numbered,
    Rest,
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
        """The numbers of some of an own partition, with the names that are new."""
        published_as, first = self.columns.published_as, self.published[partition]
        new = some[published_as[some] == NEVER]
        self.published[partition] += len(new)
        published_as[new] = np.arange(first, self.published[partition])
        return Numbered(first, [self.ids.names[i] for i in new.tolist()], published_as[some])

    def receive(self, partition: int, numbered: Numbered) -> Ints | None:
        """The own numbers for another instance's; None if its first names were not received."""
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


# The estimates that instances publish to each other, so that each knows all tasks and workers.


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
        self.received = np.zeros(self.crowd.partitions, np.bool_)
        self.ahead: dict[int, list[bytes | None]] = {}  # of the next owners of own partitions
        self.is_requested = False  # another instance requests complete estimates
        self.tasks = Numbering(
            self.crowd.tasks, self.crowd.number_tasks, self.crowd.task, self.crowd.partitions
        )
        self.workers = Numbering(
            self.crowd.workers, self.crowd.number_workers, self.crowd.worker, self.crowd.partitions
        )
        row = 300 + 8 * (2 + len(self.crowd.classes))
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
        """The estimates of these own tasks and workers, and the sums."""
        records: EstimateRecords = {}
        if self.crowd.is_alone or not (len(tasks) or len(workers)):
            return records
        self._add_tasks(tasks, records)
        if self.crowd.engine.is_settled:
            self._add_workers(workers, records)
            self._add(records, self._lowest_partition(), self.crowd.engine.sums)
        return records

    def all_estimates(self) -> EstimateRecords:
        """The estimates of all own tasks and workers."""
        records: EstimateRecords = {}
        if self.crowd.is_alone:
            return records
        nothing = Sums(0.0, 0.0, 0.0, np.zeros(len(self.crowd.classes)))
        for partition in self.stage.partitions:
            tasks, workers = self.crowd.tasks_of(partition), self.crowd.workers_of(partition)
            self.tasks.begin(partition, tasks)
            self.workers.begin(partition, workers)
            self._add_tasks(tasks, records)
            if self.crowd.engine.is_settled:
                self._add_workers(workers, records)
            is_lowest = partition == self._lowest_partition()
            self._add(records, partition, Whole(self.crowd.engine.sums if is_lowest else nothing))
        return records

    def rest(self, is_at_rest: bool) -> EstimateRecords:
        """The record that reports whether this instance is at rest."""
        records: EstimateRecords = {}
        if self.stage.partitions:
            rest = Rest(is_at_rest, self.crowd.engine.due)
            self._add(records, self._lowest_partition(), rest)
        return records

    def request(self) -> EstimateRecords:
        """The record that requests complete estimates from the others."""
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

    def _add_tasks(self, tasks: Ints, records: EstimateRecords) -> None:
        crowd, engine = self.crowd, self.crowd.engine
        for home, some in self._by_home(tasks, crowd.task.home):
            beliefs = Beliefs(
                self.tasks.publish(home, some),
                engine.label_counts(some).astype(np.int32),
                engine.golds(some).astype(np.int16),
                crowd.task.reason[some] == OPEN,
                engine.evidence(some),
            )
            self._add(records, home, beliefs)

    def _add_workers(self, workers: Ints, records: EstimateRecords) -> None:
        crowd = self.crowd
        for home, some in self._by_home(workers, crowd.worker.home):
            counts = Counts(self.workers.publish(home, some), crowd.engine.counts(some))
            self._add(records, home, counts)

    def _by_home(self, numbers: Ints, homes: NDArray[np.int32]) -> Iterator[tuple[int, Ints]]:
        """The numbers by home partition, in pieces that fit into a record."""
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
            case Whole():
                self.received[partition] = True
                self._receive_sums(partition, estimates.sums)
            case Sums():
                self._receive_sums(partition, estimates)
            case Ask():
                self.is_requested = True

    def _receive_tasks(self, partition: int, estimates: Beliefs) -> None:
        crowd = self.crowd
        tasks = self.tasks.receive(partition, estimates.tasks)
        if tasks is None:
            return
        crowd.task.remote_labels[tasks] = estimates.labels
        crowd.task.reason[tasks] = np.where(estimates.is_open, OPEN, 1)
        crowd.engine.receive_tasks(tasks, estimates.scores, estimates.gold)
        crowd.changed.add(tasks)

    def _receive_sums(self, partition: int, sums: Sums) -> None:
        self.sums[partition] = sums
        self.update_sums()

    def update_sums(self) -> None:
        """Set the sums over the crowd to those of the partitions of other instances."""
        own = self.crowd.has_tasks_of
        others = [sums for partition, sums in self.sums.items() if not own[partition]]
        self.crowd.engine.receive_sums(others)
