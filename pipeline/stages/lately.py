"""The names in the newest records that were restored.

What a crash can have kept from its topic is of the last seconds: it is published again.
"""

from collections import deque

from pipeline.inference.labels import Ints


class Lately:
    """Names in records of the last while, by the times of the records.

    >>> import numpy as np
    >>> lately = Lately(5)
    >>> lately.add([1, 2, 7], np.array([1, 3, 4]), ["a", "b", "c", "d"])
    >>> lately.take()
    ['b', 'c', 'd']
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self._records: deque[tuple[int, list[str]]] = deque()

    def add(self, times: list[int], ends: Ints, names: list[str]) -> None:
        """Records of these times were restored; `ends` are the places after their last names."""
        if not times:
            return
        newest = max(times)
        start = 0
        for time, end in zip(times, ends.tolist(), strict=True):
            if time >= newest - self.span:
                self._records.append((time, names[start:end]))
            start = end
        while self._records[0][0] < newest - self.span:
            self._records.popleft()

    def take(self) -> list[str]:
        """All names, each once; they are forgotten here."""
        names = {name for _, some in self._records for name in some}
        self._records.clear()
        return sorted(names)
