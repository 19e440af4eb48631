"""What is answered when something is not as it must be."""

from collections.abc import Mapping
from typing import Any


class CannotStart(Exception):
    """The gateway cannot start as it is told to; says what to change."""


class Problem(Exception):
    """An answer with an error status: one line that says what to do, and further fields."""

    def __init__(
        self, status: int, error: str, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.fields: dict[str, Any] = {"error": error, **fields}


def unavailable(
    error: str, fields: Mapping[str, Any] | None = None, retry_after: int = 2
) -> Problem:
    """Not now: whoever asks again in so many seconds may have more luck.

    >>> unavailable("Kafka is away").headers
    {'Retry-After': '2'}
    """
    return Problem(503, error, {"Retry-After": str(retry_after)}, **(fields or {}))
