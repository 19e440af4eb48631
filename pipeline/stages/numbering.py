"""The numbers of tasks, or of workers, in published estimates.

Parsing and looking up names would cost more than everything else in an estimate. So an owner
numbers its tasks and workers, publishes each name once, and then only its number. It starts again
after every rebalance, when all instances consume from the first name on.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.inference.labels import Ints
from pipeline.records.columns import NOT_OURS
from pipeline.records.estimates import Numbered
from pipeline.stages.crowd import NEVER, TaskColumns, WorkerColumns
from pipeline.stages.growing import with_room
from pipeline.stages.name_table import NameTable


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
        """The own numbers for another instance's; None if its first names were not received.

        `BadRecord` if the names do not belong to that partition, or numbers have no name.
        """
        received = self.received[partition]
        if numbered.first != received.count and (numbered.first or not numbered.names):
            return None
        new = self.number(numbered.names)
        if (self.columns.home[new] != partition).any():
            raise NOT_OURS
        if len(numbered.numbers) and numbered.numbers.max() >= numbered.first + len(new):
            raise NOT_OURS
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
