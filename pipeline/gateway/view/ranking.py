"""Pages of an order, which is sorted now and then in a thread, so that a page is cheap."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Ints

Floats = NDArray[np.float64]

FRESH_SECONDS = 0.5
SHARE = 10  # an order is not sorted again for so many times as long as sorting took
QUICK_SECONDS = 0.02  # requests wait for a sort that is quicker than this
LATE_SECONDS = 5.0  # or else get an order that is stale by at most this


class Cursor(NamedTuple):
    """The end of a page: the key of its last record in the order, and its number."""

    key: float
    number: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse a cursor; raises `ValueError`.

        >>> Cursor.parse(str(Cursor(-0.25, 17)))
        Cursor(key=-0.25, number=17)
        """
        key, _, number = text.partition(":")
        return cls(float(key), int(number))

    def __str__(self) -> str:
        return f"{self.key}:{self.number}"


class Page(NamedTuple):
    """Numbers in order, and the cursor of the next page, if there is one."""

    numbers: list[int]
    next: Cursor | None


class Ranking:
    """Numbers in ascending order of their keys; of equal ones, the lower number first.

    >>> ranking = Ranking(np.array([4, 5, 6, 7]), np.array([0.5, 0.1, 0.5, 0.2]))
    >>> first = ranking.page(None, 3)
    >>> first.numbers, ranking.page(first.next, 3)
    ([5, 7, 4], Page(numbers=[6], next=None))

    A page begins after the key of the previous one, wherever that is now:

    >>> Ranking(np.array([4, 6, 7]), np.array([0.05, 0.6, 0.7])).page(first.next, 3).numbers
    [6, 7]
    """

    def __init__(self, numbers: Ints, keys: Floats) -> None:
        order = np.argsort(keys, kind="stable")
        self.numbers, self.keys = numbers[order], keys[order]

    def page(self, after: Cursor | None, limit: int) -> Page:
        """The first `limit` numbers, or those after a cursor."""
        start = 0 if after is None else self._index_after(after)
        end = start + limit
        numbers = self.numbers[start:end].tolist()
        more = end < len(self.numbers)
        last = Cursor(float(self.keys[end - 1]), numbers[-1]) if more else None
        return Page(numbers, last)

    def _index_after(self, cursor: Cursor) -> int:
        first = int(np.searchsorted(self.keys, cursor.key, "left"))
        last = int(np.searchsorted(self.keys, cursor.key, "right"))
        equal = self.numbers[first:last]
        return first + int(np.searchsorted(equal, cursor.number, "right"))


Columns = Callable[[], tuple[Ints, Floats]]


class LiveRanking:
    """A ranking that is sorted again on request, but not too often.

    `columns` returns copies of the numbers and their keys.
    """

    def __init__(self, columns: Columns, clock: Callable[[], float] = monotonic) -> None:
        self._columns = columns
        self._clock = clock
        self._ranking = Ranking(np.empty(0, np.int64), np.empty(0))
        self._stale_at = self._useless_at = 0.0
        self._sorting: asyncio.Task[None] | None = None

    async def page(self, after: Cursor | None, limit: int) -> Page:
        """The first `limit` numbers, or those after a cursor."""
        if self._clock() >= self._stale_at:
            if self._sorting is None:
                self._sorting = asyncio.create_task(self._sort())
            if self._clock() >= self._useless_at:
                await asyncio.shield(self._sorting)
        return self._ranking.page(after, limit)

    async def _sort(self) -> None:
        try:
            started = self._clock()
            numbers, keys = self._columns()
            self._ranking = await asyncio.to_thread(Ranking, numbers, keys)
            took = self._clock() - started
            self._stale_at = self._clock() + max(FRESH_SECONDS, SHARE * took)
            self._useless_at = self._stale_at + (0.0 if took < QUICK_SECONDS else LATE_SECONDS)
        finally:
            self._sorting = None
