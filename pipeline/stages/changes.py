"""Numbers of tasks or workers that have changed, each once, in order of their first change."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.inference.labels import Ints


class Changes:
    """An ordered set of numbers, filled and emptied by arrays.

    >>> changes = Changes()
    >>> changes.add([3, 1])
    >>> changes.add([1, 2])
    >>> len(changes), 2 in changes, changes.take(2).tolist(), changes.take().tolist()
    (3, True, [3, 1], [2])
    """

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        self._is_in = np.zeros(0, np.bool_)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return number < len(self._is_in) and bool(self._is_in[number])

    def add(self, numbers: ArrayLike) -> None:
        """Add numbers, which must differ within one call."""
        given = np.asarray(numbers, np.int64)
        if not len(given):
            return
        most = int(given.max()) + 1
        if most > len(self._is_in):
            longer = np.zeros(max(most, 2 * len(self._is_in)), np.bool_)
            longer[: len(self._is_in)] = self._is_in
            self._is_in = longer
        new = given[~self._is_in[given]]
        if len(new):
            self._is_in[new] = True
            self._parts.append(new)
            self._count += len(new)

    def take(self, most: int | None = None) -> Ints:
        """Remove and return the first `most` numbers, or all."""
        if not self._parts:
            return np.empty(0, np.int64)
        found = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        taken = found[:most]
        self._parts = [found[len(taken) :]] if len(taken) < len(found) else []
        self._is_in[taken] = False
        self._count -= len(taken)
        return taken
