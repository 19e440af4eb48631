"""A sorted list in which something is inserted or deleted without a shift of all that follows."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=tuple[Any, ...])
LONG = 512  # of a run, which is then cut in two
SHORT = LONG // 8  # of a run, which then joins a neighbour


class SortedRuns(Generic[Item]):
    """The list is cut into runs: run i has the items from starts[i - 1] up to starts[i].

    >>> runs = SortedRuns[tuple[int, str]]()
    >>> for item in [(3, "c"), (1, "a"), (2, "b")]:
    ...     runs.add(item)
    >>> runs.remove((1, "a"))
    >>> list(runs), list(runs.since((3,)))
    ([(2, 'b'), (3, 'c')], [(3, 'c')])
    """

    def __init__(self) -> None:
        self._starts: list[Item] = []
        self._runs: list[list[Item]] = [[]]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._runs)

    def since(self, start: tuple[Any, ...]) -> Iterator[Item]:
        """The items from `start` on."""
        number = bisect_right(self._starts, start)
        run = self._runs[number]
        for place in range(bisect_left(run, start), len(run)):  # a slice would touch all items
            yield run[place]
        for following in range(number + 1, len(self._runs)):
            yield from self._runs[following]

    def add(self, item: Item) -> None:
        """Insert an item that is not in the list."""
        number = bisect_right(self._starts, item)
        run = self._runs[number]
        insort(run, item)
        if len(run) > LONG:
            self._cut(number)

    def remove(self, item: Item) -> None:
        """Delete an item that is in the list."""
        number = bisect_right(self._starts, item)
        run = self._runs[number]
        del run[bisect_left(run, item)]
        if len(run) < SHORT and self._starts:
            self._join(max(number - 1, 0))

    def _cut(self, number: int) -> None:
        run = self._runs[number]
        middle = len(run) // 2
        self._starts.insert(number, run[middle])
        self._runs[number : number + 1] = run[:middle], run[middle:]

    def _join(self, number: int) -> None:
        """Make one run of this and the next."""
        del self._starts[number]
        self._runs[number] += self._runs.pop(number + 1)
        if len(self._runs[number]) > LONG:
            self._cut(number)
