"""Access checks: tokens, hosts and origins, and requests per second."""

from hmac import compare_digest
from time import monotonic
from urllib.parse import urlsplit

from aiohttp import web

from pipeline.gateway.bucket import Bucket
from pipeline.gateway.config import GatewayConfig, is_loopback
from pipeline.gateway.errors import Problem
from pipeline.gateway.routing import Route

BEARER = "Bearer "
ANYBODY = ""
METHODS = "GET, POST"
ALLOWED_HEADERS = "authorization, content-type"
PREFLIGHT_SECONDS = "600"


class Guard:
    """Raises `Problem` for requests that must not be answered.

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
        """Raise `Problem` unless the request is allowed."""
        if not self._tokens:
            self._check_host_and_origin(request)
        if route is None or route.is_open:
            return
        token = self._token(request) if self._tokens else b""
        wait = self._buckets[token].take()
        if wait > 0:
            seconds = str(max(1, round(wait)))
            raise Problem(429, "too many requests a second", {"Retry-After": seconds})

    def _token(self, request: web.Request) -> bytes:
        """The token of the request; raises 401 unless it is valid."""
        given = request.headers.get("Authorization", "")
        if not given.startswith(BEARER):
            raise unauthorized("a token is required: Authorization: Bearer TOKEN")
        offered = given.removeprefix(BEARER).strip().encode(errors="surrogateescape")
        # all are compared, so that the time does not reveal which one matches
        matches = [token for token in self._tokens if compare_digest(token, offered)]
        if not matches:
            raise unauthorized("this token is not valid")
        return matches[0]

    def _check_host_and_origin(self, request: web.Request) -> None:
        host = host_of(f"//{request.host}")
        if host is None or not is_loopback(host):
            raise Problem(403, "the Host must be localhost or 127.0.0.1, or set a token")
        origin = request.headers.get("Origin")
        if origin is None or origin in self._origins:
            return
        if urlsplit(origin).netloc != request.host:
            raise Problem(403, "this origin is not allowed: see SBIC_GATEWAY_CORS")

    def preflight(self, request: web.Request) -> web.Response | None:
        """The answer to a CORS preflight; None if the request is not one."""
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        if request.headers.get("Origin") not in self._origins:
            raise Problem(403, "this origin is not allowed: see SBIC_GATEWAY_CORS")
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


def unauthorized(error: str) -> Problem:
    """401, with the header that it requires."""
    return Problem(401, error, {"WWW-Authenticate": 'Bearer realm="sbic"'})


def host_of(url: str) -> str | None:
    """The host in an address; None if it cannot be parsed.

    >>> host_of("//[::1]:8080"), host_of("//localhost"), host_of("//[") is None
    ('::1', 'localhost', True)
    """
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
