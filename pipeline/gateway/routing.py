"""Routes: method, path, handler and OpenAPI description."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """One method of one path.

    `operation` is the OpenAPI operation, built with `pipeline.gateway.describing`. An open route
    needs no token.
    """

    method: str
    path: str
    handler: Handler
    operation: Mapping[str, Any]
    is_open: bool = False


class Routes(Protocol):
    """The routes of one subject."""

    def routes(self) -> Sequence[Route]:
        """All of them."""


def json(body: bytes, status: int = 200) -> web.Response:
    """An answer whose body is JSON."""
    return web.Response(body=body, status=status, content_type="application/json")
