"""The names in the newest restored records.

A crash can have prevented the publication of what was recorded in the last seconds, so these tasks
or workers are published again.
"""

from collections import deque

from pipeline.inference.labels import Ints
from pipeline.records.names import Names


class RecentNames:
    """The names in records of the last `span`, by the times of the records.

    >>> import numpy as np
    >>> recent = RecentNames(5)
    >>> recent.add([1, 2, 7], np.array([1, 3, 4]), Names.of(["a", "b", "c", "d"]))
    >>> list(recent.take())
    ['b', 'c', 'd']
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self._records: deque[tuple[int, Names]] = deque()

    def add(self, times: list[int], ends: Ints, names: Names) -> None:
        """Add restored records by time; `ends` are the positions after their last names."""
        if not times:
            return
        newest = max(times)
        start = 0
        for time, end in zip(times, ends.tolist(), strict=True):
            if time >= newest - self.span:
                self._records.append((time, names.part(start, end)))
            start = end
        while self._records[0][0] < newest - self.span:
            self._records.popleft()

    def take(self) -> Names:
        """Remove and return all names."""
        names = Names.joined([some for _, some in self._records])
        self._records.clear()
        return names
