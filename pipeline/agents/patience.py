"""Retries requests for as long as a broker may be unavailable: clients give up sooner."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

PATIENCE_SECONDS = 120
AGAIN_SECONDS = 0.5

T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]], away: type[Exception]) -> T:
    """Return what `ask` returns; while it raises `away`, call it again for two minutes.

    >>> answers = iter([ConnectionError, ConnectionError, 42])
    >>> async def ask() -> int:
    ...     answer = next(answers)
    ...     if answer is ConnectionError:
    ...         raise ConnectionError
    ...     return answer
    >>> asyncio.run(patiently(ask, ConnectionError))
    42
    """
    last = monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await ask()
        except away:
            if monotonic() > last:
                raise
        await asyncio.sleep(AGAIN_SECONDS)
