"""Limits how often changes are published, so that a change is not published many times over."""

import asyncio
from collections.abc import Callable
from time import monotonic

SHARE = 0.01  # of the time, unless that would take too long


class Throttle:
    """Keeps an interval between two publications: longer ones, up to `most`, if they cost much.

    `notify` is called when the next publication is due.
    """

    def __init__(self, least: float, most: float, notify: Callable[[], None]) -> None:
        self.least = least
        self.most = most
        self.notify = notify
        self.due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether changes may be published now."""
        return monotonic() >= self.due

    def published(self, spent: float) -> None:
        """Wait from now on: a publication has just cost so many seconds."""
        wait = min(max(self.least, spent / SHARE), self.most)
        self.due = monotonic() + wait  # first: `notify` must not come too early
        asyncio.get_running_loop().call_later(wait, self.notify)
