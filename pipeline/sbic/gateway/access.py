"""The middleware of all requests: tokens, hosts, origins and rates; errors as JSON; metrics."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from time import monotonic, perf_counter
from typing import Protocol
from urllib.parse import urlsplit

from aiohttp import web
from orjson import dumps
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from sbic.gateway.config import GatewayConfig, HttpProblem, is_loopback

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """One method of one path, described in `schemas/openapi.json`; an open one needs no token."""

    method: str
    path: str
    handler: Handler
    is_open: bool = False


class Routes(Protocol):
    """The routes of one subject."""

    def routes(self) -> Sequence[Route]:
        """All of them."""


def json(body: bytes, status: int = 200) -> web.Response:
    """Answer with a body of JSON."""
    return web.Response(body=body, status=status, content_type="application/json")


# The Prometheus metrics of a gateway: base units, and no id as a label value.


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class GatewayMetrics:
    """All metrics of a gateway, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._requests = Counter(
            "sbic_gateway_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sbic_gateway_request_seconds",
            "Seconds from a request's headers to its answer, by route.",
            ["route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._sent = Counter(
            "sbic_gateway_records",
            "Records that Kafka has acknowledged, by topic.",
            ["kind"],
            registry=registry,
        )

        self._malformed = Counter(
            "sbic_gateway_malformed_requests",
            "Requests that are not valid HTTP.",
            registry=registry,
        )

    def malformed(self) -> None:
        """Count a request that is not valid HTTP."""
        self._malformed.inc()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def sent(self, kind: str, records: int) -> None:
        """Count acknowledged labels, tasks or requests."""
        self._sent.labels(kind).inc(records)

    def connections(self, count: Callable[[], float]) -> None:
        """Where the number of open connections comes from."""
        gauge = Gauge("sbic_gateway_connections", "Connections open.", registry=self.registry)
        gauge.set_function(count)


# A token bucket, which limits the rate of requests.


class Bucket:
    """Allows `rate` requests per second, and bursts of one second's worth.

    >>> now = [0.0]
    >>> bucket = Bucket(2.0, clock=lambda: now[0])
    >>> [bucket.take() for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> now[0] = 0.5
    >>> bucket.take()
    0.0
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._level = self._most = max(rate, 1.0)
        self._at = clock()

    def take(self) -> float:
        """Take one request; returns 0, or the seconds until one is allowed."""
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate


# Access checks: tokens, hosts and origins, and requests per second.


BEARER = "Bearer "
ANYBODY = ""
METHODS = "GET, POST"
ALLOWED_HEADERS = "authorization, content-type"
PREFLIGHT_SECONDS = "600"


class AccessRules:
    """Raises `HttpProblem` for requests that must not be answered.

    Without tokens the gateway listens on the loopback only. A page of another site that is open in
    a browser on this machine can still send requests there: through a host name that resolves to
    127.0.0.1 (then `Host` is not ours), or across origins (then `Origin` is not ours). With tokens
    this is no threat, since such a page does not have one.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self._tokens = [token.encode() for token in config.tokens]
        self._origins = frozenset(config.cors)
        keys = config.tokens or (ANYBODY,)
        self._buckets = {key.encode(): Bucket(config.rate, monotonic) for key in keys}

    def check(self, request: web.Request, route: Route | None) -> None:
        """Raise `HttpProblem` unless the request is allowed."""
        if not self._tokens:
            self._check_host_and_origin(request, route)
        if (request.content_length or 0) > request.client_max_size:
            raise too_large()
        if route is None or route.is_open:
            return
        token = self._token(request) if self._tokens else b""
        wait = self._buckets[token].take()
        if wait > 0:
            seconds = str(max(1, round(wait)))
            raise HttpProblem(429, "too many requests a second", {"Retry-After": seconds})

    def _token(self, request: web.Request) -> bytes:
        """Return the token of the request; raise 401 unless it is valid."""
        given = request.headers.get("Authorization", "")
        if not given.startswith(BEARER):
            raise unauthorized("a token is required: Authorization: Bearer TOKEN")
        offered = given.removeprefix(BEARER).strip().encode(errors="surrogateescape")
        # all are compared, so that the time does not reveal which one matches
        matches = [token for token in self._tokens if compare_digest(token, offered)]
        if not matches:
            raise unauthorized("this token is not valid")
        return matches[0]

    def _check_host_and_origin(self, request: web.Request, route: Route | None) -> None:
        host = host_of(f"//{request.host}")
        if host is None or not is_loopback(host):
            raise HttpProblem(403, "the Host must be localhost or 127.0.0.1, or set a token")
        origin = request.headers.get("Origin")
        if origin is None:
            if request.headers.get("Sec-Fetch-Site") in FOREIGN and not is_link(request, route):
                raise HttpProblem(403, "pages of other sites may not send requests here")
            return
        if origin in self._origins:
            return
        if netloc_of(origin) != request.host:
            raise HttpProblem(403, "this origin is not allowed: see SBIC_GATEWAY_CORS")

    def preflight(self, request: web.Request) -> web.Response | None:
        """Return the answer to a CORS preflight; None if the request is not one."""
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        if request.headers.get("Origin") not in self._origins:
            raise HttpProblem(403, "this origin is not allowed: see SBIC_GATEWAY_CORS")
        return web.Response(
            status=204,
            headers={
                "Access-Control-Allow-Methods": METHODS,
                "Access-Control-Allow-Headers": ALLOWED_HEADERS,
                "Access-Control-Max-Age": PREFLIGHT_SECONDS,
            },
        )

    def allow_origin(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the CORS headers for an allowed origin."""
        if not self._origins:
            return
        response.headers["Vary"] = "Origin"
        origin = request.headers.get("Origin")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "Retry-After"
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"


FOREIGN = ("cross-site", "same-site")  # another port of this machine is the same site


def is_link(request: web.Request, route: Route | None) -> bool:
    """Whether somebody follows a link to the page from another site, which cannot read it."""
    is_open = route is not None and route.is_open
    return is_open and request.headers.get("Sec-Fetch-Mode") == "navigate"


def too_large() -> HttpProblem:
    """413; the connection is closed, since the rest of the body is not read."""
    error = "the body has more than 1 MB: send it in parts"
    return HttpProblem(413, error, {"Connection": "close"})


def unauthorized(error: str) -> HttpProblem:
    """401, with the header that it requires."""
    return HttpProblem(401, error, {"WWW-Authenticate": 'Bearer realm="sbic"'})


def host_of(url: str) -> str | None:
    """Return the host in an address; None if it cannot be parsed.

    >>> host_of("//[::1]:8080"), host_of("//localhost"), host_of("//[") is None
    ('::1', 'localhost', True)
    """
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def netloc_of(url: str) -> str | None:
    """Return the host and port in an address, as written there; None if it cannot be parsed.

    >>> netloc_of("http://localhost:8080"), netloc_of("http://[") is None
    ('localhost:8080', True)
    """
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


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


class Middleware:
    """The middleware around all routes."""

    def __init__(
        self, routes: Mapping[Handler, Route], rules: AccessRules, metrics: GatewayMetrics
    ) -> None:
        self.routes = routes
        self.rules = rules
        self.metrics = metrics

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check and answer a request; every error becomes a JSON object."""
        started = perf_counter()
        route = self.routes.get(request.match_info.handler)
        response: web.StreamResponse
        try:
            response = await self._answer(request, handler, route)
        except HttpProblem as problem:
            response = answer(problem)
        except web.HTTPException as error:
            response = answer(translated(error))
        except Exception:
            log.exception("a request to %s failed", "no route" if route is None else route.path)
            response = answer(HttpProblem(500, "the gateway failed; see its log"))
        self.metrics.answered(
            "none" if route is None else route.path, response.status, perf_counter() - started
        )
        return response

    async def _answer(
        self, request: web.Request, handler: Handler, route: Route | None
    ) -> web.StreamResponse:
        if preflight := self.rules.preflight(request):
            return preflight
        self.rules.check(request, route)
        return await handler(request)

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers of every answer; a signal handler of aiohttp."""
        response.headers.update(HEADERS)
        self.rules.allow_origin(request, response)


def answer(problem: HttpProblem) -> web.Response:
    """Return the answer that describes a problem."""
    response = json(dumps(problem.fields), problem.status)
    response.headers.update(problem.headers)
    return response


def translated(error: web.HTTPException) -> HttpProblem:
    """Return an error of aiohttp as a `HttpProblem`."""
    if error.status == 404:
        return HttpProblem(404, "there is nothing here; GET /openapi.json lists all paths")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return HttpProblem(405, f"the method must be one of {allowed}", {"Allow": allowed})
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return too_large()
    return HttpProblem(error.status, error.reason)
