"""The tasks that changed last, as many as a page shows."""

from typing import NamedTuple

SHOWN = 20


class Seen(NamedTuple):
    """The posteriors that changed since a count of changes, and the count now."""

    values: list[bytes]
    upto: int


class Changes:
    """The last posterior of each of the tasks that changed last.

    >>> changes = Changes()
    >>> for task, value in (("t1", b"1"), ("t2", b"2"), ("t1", b"3")):
    ...     changes.add(task, value)
    >>> seen = changes.since(0)
    >>> seen.values, changes.since(seen.upto).values
    ([b'2', b'3'], [])
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str, tuple[int, bytes]] = {}  # count and posterior, the newest last

    def add(self, task: str, value: bytes) -> None:
        """Add the new posterior of a task."""
        self.count += 1
        self._last.pop(task, None)
        self._last[task] = self.count, value
        if len(self._last) > SHOWN:
            del self._last[next(iter(self._last))]

    def since(self, count: int) -> Seen:
        """The posteriors that changed after this count, the newest last."""
        return Seen([value for at, value in self._last.values() if at > count], self.count)
