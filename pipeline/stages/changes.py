"""Numbers of tasks or workers that have changed, each once, in order of their first change."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.labels import Ints
from pipeline.stages.growing import with_room


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
