"""Says when an instance comes to rest, and when it is no longer: not with every label."""

import logging
from math import inf

log = logging.getLogger("sbic")

SECONDS = 60.0  # at least, between two lines


class SettledLog:
    """Logs changes between settled and not settled; what changes back within a minute is not told.

    >>> told = SettledLog()
    >>> [told.is_due(rests, now) for rests, now in ((True, 0), (False, 1), (True, 2), (False, 61))]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self.said: bool | None = None
        self.said_at = -inf

    def is_due(self, rests: bool, now: float) -> bool:
        """Whether to say it; from then on it is said."""
        if rests is self.said or now < self.said_at + SECONDS:
            return False
        self.said, self.said_at = rests, now
        return True

    def look(self, rests: bool, due: int, now: float) -> None:
        """Say whether the instance rests, if that is news."""
        if self.is_due(rests, now):
            log.info("settled" if rests else f"not settled: {due} tasks are due")
