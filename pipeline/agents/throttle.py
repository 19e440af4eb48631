"""Limits how often changes are published, so that a change is not published many times over."""

import asyncio
from collections.abc import Callable
from time import monotonic

SHARE = 0.02  # of the time, at the most
MOST_SECONDS_BETWEEN = 10.0


class Throttle:
    """Keeps an interval between two publications, and their cost below a share of the time.

    `notify` is called when the next publication is due.
    """

    def __init__(self, seconds: float, notify: Callable[[], None]) -> None:
        self.seconds = seconds
        self.notify = notify
        self.due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether changes may be published now."""
        return monotonic() >= self.due

    def published(self, spent: float) -> None:
        """Wait from now on: a publication has just cost so many seconds."""
        wait = min(max(self.seconds, spent / SHARE), MOST_SECONDS_BETWEEN)
        self.due = monotonic() + wait  # first: `notify` must not come too early
        asyncio.get_running_loop().call_later(wait, self.notify)
