"""Hands out things in portions: as fast as they are taken, or so many a second."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from time import monotonic
from typing import TypeVar

PORTION = 4000
TICK_SECONDS = 0.01

T = TypeVar("T")


async def paced(things: Sequence[T], rate: float | None) -> AsyncIterator[Sequence[T]]:
    """Portions of `things` in order, `rate` things a second; without a rate, no waiting."""
    start = monotonic()
    done = 0
    while done < len(things):
        due = len(things)
        if rate is not None:
            due = min(due, 1 + int((monotonic() - start) * rate))
            if due <= done:
                await asyncio.sleep(max(TICK_SECONDS, start + done / rate - monotonic()))
                continue
        portion = things[done : min(due, done + PORTION)]
        done += len(portion)
        yield portion
