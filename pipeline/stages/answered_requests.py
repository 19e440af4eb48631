"""Which requests of a partition have been answered, for those that may be consumed again.

The highest offset alone is not enough: a forged assignment would leave all requests before it
unanswered.
"""

from typing import NamedTuple

REMEMBERED = 20_000  # requests: more than can be answered and not yet committed


class Out(NamedTuple):
    """How many assignments of a request are published; `complete`: there will be no more."""

    numbers: int
    complete: bool


class AnsweredRequests:
    """The requests of one partition, by offset and worker.

    >>> answered = AnsweredRequests()
    >>> answered.add(42, "w1", Out(1, complete=False))
    >>> answered.numbers_out(42, "w1", 3), answered.numbers_out(42, "w2", 3)
    (1, 0)
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._out: dict[tuple[int, str], Out] = {}
        self._first = 0  # all requests before this offset are answered

    def add(self, offset: int, worker: str, out: Out) -> None:
        """Set how much of a request is published."""
        self._out[offset, worker] = out
        if len(self._out) > 2 * self._remembered:
            in_order = sorted(self._out)
            self._first = in_order[self._remembered][0]
            for request in in_order[: self._remembered]:
                del self._out[request]

    def reopen(self, offset: int, worker: str, number: int) -> None:
        """Record that an assignment of a request, and those after it, are not published after all.

        >>> answered = AnsweredRequests()
        >>> answered.add(42, "w1", Out(3, complete=False))
        >>> answered.reopen(42, "w1", 1)
        >>> answered.numbers_out(42, "w1", 3)
        1
        """
        out = self._out.get((offset, worker))
        if out is not None and out.numbers > number:
            self._out[offset, worker] = Out(number, complete=False)

    def is_refused(self, offset: int, worker: str, number: int) -> bool:
        """Whether this assignment of a request is a refusal."""
        return self._out.get((offset, worker)) == Out(number + 1, complete=True)

    def numbers_out(self, offset: int, worker: str, count: int) -> int:
        """How many of the `count` assignments of a request are published already."""
        if offset < self._first:
            return count
        out = self._out.get((offset, worker))
        if out is None:
            return 0
        return count if out.complete else min(count, out.numbers)
