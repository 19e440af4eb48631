"""The middleware of all requests: access checks, errors as JSON, headers and metrics."""

import logging
from collections.abc import Mapping
from time import perf_counter

from aiohttp import web
from orjson import dumps

from pipeline.gateway.errors import Problem
from pipeline.gateway.guard import Guard
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.routing import Handler, Route, json

log = logging.getLogger("sbic")

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "sbic",  # without versions
}


class Gate:
    """The middleware around all routes."""

    def __init__(self, routes: Mapping[Handler, Route], guard: Guard, metrics: Metrics) -> None:
        self.routes = routes
        self.guard = guard
        self.metrics = metrics

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check and answer a request; every error becomes a JSON object."""
        started = perf_counter()
        route = self.routes.get(request.match_info.handler)
        response: web.StreamResponse
        try:
            response = await self._answer(request, handler, route)
        except Problem as problem:
            response = answer(problem)
        except web.HTTPException as error:
            response = answer(translated(error))
        except Exception:
            log.exception("a request to %s failed", "no route" if route is None else route.path)
            response = answer(Problem(500, "the gateway failed; see its log"))
        self.metrics.answered(
            "none" if route is None else route.path, response.status, perf_counter() - started
        )
        return response

    async def _answer(
        self, request: web.Request, handler: Handler, route: Route | None
    ) -> web.StreamResponse:
        if preflight := self.guard.preflight(request):
            return preflight
        self.guard.check(request, route)
        return await handler(request)

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers of every answer; a signal handler of aiohttp."""
        response.headers.update(HEADERS)
        self.guard.allow_origin(request, response)


def answer(problem: Problem) -> web.Response:
    """The answer that describes a problem."""
    response = json(dumps(problem.fields), problem.status)
    response.headers.update(problem.headers)
    return response


def translated(error: web.HTTPException) -> Problem:
    """An error of aiohttp as a `Problem`."""
    if error.status == 404:
        return Problem(404, "there is nothing here; GET /openapi.json lists all paths")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return Problem(405, f"the method must be one of {allowed}", {"Allow": allowed})
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Problem(413, "the body has more than 1 MB: send it in parts")
    return Problem(error.status, error.reason)
