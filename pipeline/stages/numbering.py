"""The numbers under which owners of partitions tell of tasks, or of workers.

To parse names and to look them up costs more than all else that is told. So an owner numbers what
it has, tells each name once, and from then on its number. It begins anew after every rebalance,
when everybody listens from the first name on.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.inference.engine.ids import Ids
from pipeline.inference.labels import Ints
from pipeline.records.columns import NOT_OURS
from pipeline.records.estimates import Numbered
from pipeline.stages.crowd import NEVER, TaskColumns, WorkerColumns


class Numbering:
    """The numbers of one kind of thing in all partitions, told here and heard of elsewhere."""

    def __init__(
        self,
        ids: Ids[str],
        number: Callable[[Sequence[str]], Ints],
        columns: TaskColumns | WorkerColumns,
        partitions: int,
    ) -> None:
        self.ids = ids
        self.number = number
        self.columns = columns
        self.told = [0] * partitions
        self.heard = [Heard() for _ in range(partitions)]

    def begin(self, partition: int, all_of_it: Ints) -> None:
        """Tell every name of an own partition again."""
        self.columns.told_as[all_of_it] = NEVER
        self.told[partition] = 0

    def tell(self, partition: int, some: Ints) -> Numbered:
        """How to tell of some of an own partition."""
        told_as, first = self.columns.told_as, self.told[partition]
        new = some[told_as[some] == NEVER]
        self.told[partition] += len(new)
        told_as[new] = np.arange(first, self.told[partition])
        return Numbered(first, [self.ids.names[i] for i in new.tolist()], told_as[some])

    def hear(self, partition: int, told: Numbered) -> Ints | None:
        """Which ones another instance tells of; None if its first names were not heard.

        `BadRecord` if the names are not of that partition, or numbers have no name.
        """
        heard = self.heard[partition]
        if told.first != heard.count and (told.first or not told.names):
            return None
        new = self.number(told.names)
        if (self.columns.home[new] != partition).any():
            raise NOT_OURS
        if len(told.numbers) and told.numbers.max() >= told.first + len(new):
            raise NOT_OURS
        heard.add(told.first, new)
        found: Ints = heard.numbers[told.numbers]
        return found


class Heard:
    """What the numbers of another instance stand for here."""

    def __init__(self) -> None:
        self.count = 0
        self.numbers = np.zeros(0, np.int64)

    def add(self, first: int, new: Ints) -> None:
        """The next numbers, from `first` on, stand for these."""
        self.count = first + len(new)
        if self.count > len(self.numbers):
            longer = np.zeros(max(self.count, 2 * len(self.numbers)), np.int64)
            longer[:first] = self.numbers[:first]
            self.numbers = longer
        self.numbers[first : self.count] = new
