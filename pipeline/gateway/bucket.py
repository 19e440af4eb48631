"""A token bucket, which limits the rate of requests."""

from collections.abc import Callable


class Bucket:
    """Allows `rate` requests per second, and bursts of one second's worth.

    >>> now = [0.0]
    >>> bucket = Bucket(2.0, clock=lambda: now[0])
    >>> [bucket.take() for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> now[0] = 0.5
    >>> bucket.take()
    0.0
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._level = self._most = max(rate, 1.0)
        self._at = clock()

    def take(self) -> float:
        """Take one request; returns 0, or the seconds until one is allowed."""
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate
