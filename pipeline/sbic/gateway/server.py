"""Runs a gateway: its routes, limits of connections, and a graceful end."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from errno import EADDRINUSE
from math import inf
from time import monotonic
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sbic.gateway.access import AccessRules, GatewayMetrics, Middleware, Routes
from sbic.gateway.body import no_invitation
from sbic.gateway.config import ConnectionLimit, GatewayCannotStart, GatewayConfig
from sbic.gateway.openapi import DescriptionRoutes
from sbic.gateway.routes.live import EventRoutes, HealthRoutes, PageRoutes
from sbic.gateway.routes.reading import ReportRoutes, StatusRoutes, TaskRoutes, WorkerRoutes
from sbic.gateway.routes.writing import LabelStudioRoutes, NextRoutes, WritingRoutes
from sbic.gateway.session import Project, Projects
from sbic.project.revision import Given

STUCK_SECONDS = 20


class LimitedSite(web.BaseSite):
    """A TCP port that immediately closes connections beyond the limits."""

    def __init__(self, runner: web.AppRunner, config: GatewayConfig) -> None:
        super().__init__(runner)
        self._host = config.host
        self._port = config.port
        self.connections = ConnectionLimit(config.connections, config.address_share)

    @property
    def name(self) -> str:
        """The address that it listens on."""
        server = cast(asyncio.Server | None, self._server)
        port = self._port if server is None else server.sockets[0].getsockname()[1]
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    async def start(self) -> None:
        """Start to listen; port 0 is any free port."""
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connection, self._host, self._port, backlog=self._backlog
        )

    def _connection(self) -> asyncio.Protocol:
        assert self._runner.server is not None
        return _CountedConnection(self._runner.server(), self.connections)


class _CountedConnection(asyncio.Protocol):
    """aiohttp's protocol, with a timeout for clients that do not read their answers."""

    def __init__(self, inner: asyncio.Protocol, places: ConnectionLimit) -> None:
        self._inner = inner
        self._places = places
        self._address: str | None = None
        self._transport: asyncio.Transport | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self.data_received = inner.data_received  # type: ignore[method-assign]  # the hot path
        self.eof_received = inner.eof_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = address_of(transport)
        if self._places.take(address) is not None:
            self._transport.abort()  # the client may try again
            return
        self._address = address
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is None:
            return  # it was refused
        self._places.free(self._address)
        self._cancel_timeout()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._stuck = loop.call_later(STUCK_SECONDS, self._transport.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._cancel_timeout()
        self._inner.resume_writing()

    def _cancel_timeout(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def address_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of the client; empty if it has disconnected already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


# The log of aiohttp's connections.


MALFORMED_SECONDS = 60.0

log = logging.getLogger("sbic")


class ConnectionLog(logging.LoggerAdapter[logging.Logger]):
    """Counts malformed requests, and logs one of them a minute, in one line.

    aiohttp 3.14 logs each with its traceback, so that anybody can fill the log without a token.
    """

    def __init__(self, metrics: GatewayMetrics, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(log)
        self._metrics = metrics
        self._clock = clock
        self._due_at = -inf

    def exception(self, msg: object, *args: object, exc_info: Any = True, **kwargs: Any) -> None:
        """Log an error with its traceback, unless it is a malformed request."""
        if isinstance(exc_info, HttpProcessingError):
            self._malformed(exc_info)
        else:
            super().exception(msg, *args, exc_info=exc_info, **kwargs)

    def debug(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Count a malformed request; aiohttp logs the first ones of a connection this way."""
        if isinstance(error := kwargs.get("exc_info"), HttpProcessingError):
            self._malformed(error)
        else:
            super().debug(msg, *args, **kwargs)

    def _malformed(self, error: HttpProcessingError) -> None:
        self._metrics.malformed()
        now = self._clock()
        if now >= self._due_at:
            self._due_at = now + MALFORMED_SECONDS
            kind = type(error).__name__  # its message quotes the request
            log.warning("a malformed HTTP request (%s); more are counted for a minute", kind)


# The gateway as an aiohttp application: all routes behind one middleware.


MAX_BODY_BYTES = 1 << 20


def subjects(
    config: GatewayConfig, projects: Projects, metrics: GatewayMetrics, stopping: asyncio.Event
) -> Sequence[Routes]:
    """All routes, by subject: add new ones here."""
    return [
        WritingRoutes(projects, metrics),
        NextRoutes(projects, metrics),
        LabelStudioRoutes(projects, metrics),
        TaskRoutes(projects),
        WorkerRoutes(projects),
        StatusRoutes(projects),
        ReportRoutes(projects),
        EventRoutes(projects, stopping, config.address_share),
        HealthRoutes(projects, metrics, stopping),
        PageRoutes(),
        DescriptionRoutes(),
    ]


def gateway_app(
    config: GatewayConfig, projects: Projects, metrics: GatewayMetrics, stopping: asyncio.Event
) -> web.Application:
    """Return an application that serves these projects; `stopping` ends its streams."""
    every = [
        route for some in subjects(config, projects, metrics, stopping) for route in some.routes()
    ]
    middleware = Middleware({route.handler: route for route in every}, AccessRules(config), metrics)
    app = web.Application(middlewares=[middleware.handle], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(middleware.add_headers)
    for route in every:
        app.router.add_route(route.method, route.path, route.handler, expect_handler=no_invitation)
    return app


DRAIN_SECONDS = 8  # supervisors commonly kill after 10
IDLE_SECONDS = 30  # between two requests of a connection, and before the first


async def run(config: GatewayConfig, projects: Sequence[Given]) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests in flight."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, stop.set)
    async with serving(config, projects) as url:
        log.info("listening on %s", url)
        await stop.wait()
        log.info("stopping")


@asynccontextmanager
async def serving(config: GatewayConfig, given: Sequence[Given]) -> AsyncIterator[str]:
    """Run a gateway; yield its address."""
    stopping = asyncio.Event()
    metrics = GatewayMetrics()
    projects = Projects([Project(each) for each in given])
    app = gateway_app(config, projects, metrics, stopping)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=ConnectionLog(metrics),
        keepalive_timeout=IDLE_SECONDS,
        shutdown_timeout=DRAIN_SECONDS,
        auto_decompress=False,  # a small compressed body can become a large one
    )
    await runner.setup()
    following = [asyncio.create_task(project.follow()) for project in projects.by_prefix.values()]
    try:
        site = LimitedSite(runner, config)
        await listen(site, config)
        metrics.connections(lambda: site.connections.taken)
        yield site.name
    finally:
        stopping.set()
        await runner.cleanup()
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def listen(site: web.BaseSite, config: GatewayConfig) -> None:
    """Start to listen; raises `GatewayCannotStart`."""
    try:
        await site.start()
    except OSError as error:
        where = f"{config.host}, port {config.port}"
        if error.errno == EADDRINUSE:
            raise GatewayCannotStart(
                f"port {config.port} is taken; choose another with --port"
            ) from None
        raise GatewayCannotStart(f"cannot listen on {where}: {error.strerror or error}") from None
