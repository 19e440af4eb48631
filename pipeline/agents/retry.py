"""Retries requests for as long as a broker may be unavailable: clients give up sooner."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

MOST_SECONDS = 120
SECONDS_BETWEEN = 0.5

T = TypeVar("T")


async def retry(ask: Callable[[], Awaitable[T]], on: type[Exception]) -> T:
    """Return what `ask` returns; while it raises `on`, call it again for up to two minutes.

    >>> answers = iter([ConnectionError, ConnectionError, 42])
    >>> async def ask() -> int:
    ...     answer = next(answers)
    ...     if answer is ConnectionError:
    ...         raise ConnectionError
    ...     return answer
    >>> asyncio.run(retry(ask, ConnectionError))
    42
    """
    last = monotonic() + MOST_SECONDS
    while True:
        try:
            return await ask()
        except on:
            if monotonic() > last:
                raise
        await asyncio.sleep(SECONDS_BETWEEN)
