"""Splits a sequence into portions, at full speed or at a given rate."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from time import monotonic
from typing import TypeVar

PORTION = 4000
TICK_SECONDS = 0.01

T = TypeVar("T")


async def paced(things: Sequence[T], rate: float | None) -> AsyncIterator[Sequence[T]]:
    """Yield portions of `things` in order, at `rate` things a second, or without waiting."""
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
