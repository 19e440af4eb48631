"""Logs when an instance becomes settled, and when it no longer is, at most once a minute."""

import logging
from math import inf

log = logging.getLogger("sbic")

SECONDS = 60.0  # at least, between two lines


class SettledLog:
    """Logs changes between settled and not settled, except those undone within a minute.

    >>> log = SettledLog()
    >>> [log.is_due(rests, now) for rests, now in ((True, 0), (False, 1), (True, 2), (False, 61))]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self.logged: bool | None = None
        self.logged_at = -inf

    def is_due(self, rests: bool, now: float) -> bool:
        """Return whether to log this state, and note that it is logged."""
        if rests is self.logged or now < self.logged_at + SECONDS:
            return False
        self.logged, self.logged_at = rests, now
        return True

    def look(self, rests: bool, due: int, now: float) -> None:
        """Log whether the instance is settled, if that has changed."""
        if self.is_due(rests, now):
            log.info("settled" if rests else f"not settled: {due} tasks are due")
