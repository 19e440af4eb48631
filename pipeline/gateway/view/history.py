"""The history of a project since the gateway started, in at most a few hundred points."""

from typing import NamedTuple

MOST_POINTS = 500


class Point(NamedTuple):
    """A time, in milliseconds, and the figures at that time."""

    at: int
    labels: int
    expected_wrong: float
    open: int
    closed: int


class History:
    """Points at equal intervals; when there are too many, every second one is dropped.

    >>> history = History(every_ms=10, most=4)
    >>> for at in range(0, 100, 5):
    ...     history.add(Point(at, at, 0.5, 1, 0))
    >>> [point.at for point in history.points]
    [0, 40, 80, 95]
    """

    def __init__(self, every_ms: int = 1000, most: int = MOST_POINTS) -> None:
        self._every_ms = every_ms
        self._most = most
        self._kept: list[Point] = []
        self._last: Point | None = None

    def add(self, point: Point) -> None:
        """Add the newest point."""
        self._last = point
        if self._kept and point.at < self._kept[-1].at + self._every_ms:
            return
        self._kept.append(point)
        if len(self._kept) >= self._most:
            self._kept = self._kept[::2]
            self._every_ms *= 2

    @property
    def points(self) -> list[Point]:
        """The points kept, and the newest."""
        if self._last is None or self._last in self._kept[-1:]:
            return self._kept
        return [*self._kept, self._last]
