"""Errors of the gateway: at start, and as answers to requests."""

from collections.abc import Mapping
from typing import Any


class CannotStart(Exception):
    """The gateway cannot start; the message says what to change."""


class Problem(Exception):
    """An answer with an error status: one line that says what to do, and more fields."""

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
    """503 with Retry-After: the client should try again after that many seconds.

    >>> unavailable("Kafka does not answer").headers
    {'Retry-After': '2'}
    """
    return Problem(503, error, {"Retry-After": str(retry_after)}, **(fields or {}))
