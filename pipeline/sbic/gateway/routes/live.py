"""The page, its events, and `/healthz`, `/readyz`, `/metrics` for supervisors."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web
from orjson import dumps
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sbic.gateway.access import GatewayMetrics, Handler, Route, json
from sbic.gateway.config import ConnectionLimit, unavailable
from sbic.gateway.session import Project, Projects, wait_for


class HealthRoutes:
    """Health checks, which need no token, and metrics, which do."""

    def __init__(
        self, projects: Projects, metrics: GatewayMetrics, stopping: asyncio.Event
    ) -> None:
        self.projects = projects
        self.metrics = metrics
        self.stopping = stopping

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/healthz", self.healthz, is_open=True),
            Route("GET", "/readyz", self.readyz, is_open=True),
            Route("GET", "/metrics", self.serve_metrics),
        ]

    async def healthz(self, _request: web.Request) -> web.Response:
        """Return the process answers."""
        return json(b'{"status":"ok"}')

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether all projects can be served; if not, why, and how far reading has come."""
        why_not = "stopping" if self.stopping.is_set() else self.projects.why_not_ready
        if why_not:
            raise unavailable(f"not ready: {why_not}")
        return json(dumps({"status": "ready"}))

    async def serve_metrics(self, _request: web.Request) -> web.Response:
        """Return the metrics, in the format of Prometheus."""
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(self.metrics.registry), headers=headers)


# `/events`: the status and changed posteriors as server-sent events, at most twice a second.


TICK_SECONDS = 0.5
HEARTBEAT_TICKS = 30
MOST_STREAMS = 200


class EventRoutes:
    """Server-sent events; `stopping` ends all streams."""

    def __init__(self, projects: Projects, stopping: asyncio.Event, address_share: float) -> None:
        self.projects = projects
        self.stopping = stopping
        self.streams = ConnectionLimit(MOST_STREAMS, address_share)

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/events", self.events)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Return a stream that ends when the client disconnects, or the gateway stops."""
        project = self.projects.of(request)
        _ = project.readable
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        address = request.remote or ""
        if most := self.streams.take(address):
            raise unavailable(f"{most} streams are open already", retry_after=10)
        try:
            await response.prepare(request)
            await self._send(response, project)
        except ConnectionResetError:
            pass  # the client has disconnected
        finally:
            self.streams.free(address)
        return response

    async def _send(self, response: web.StreamResponse, project: Project) -> None:
        stream = Stream()
        while not self.stopping.is_set():
            if events := stream.next(project):
                await response.write(events)
            await wait_for(self.stopping, TICK_SECONDS)


class Stream:
    """The state of one client: what it has been sent."""

    def __init__(self) -> None:
        self._status = b""
        self._changes: object = None
        self._upto = 0
        self._ticks = 0

    def next(self, project: Project) -> bytes:
        """Return the events since the last tick; a comment if there were none for a while."""
        events = b"".join(self._events(project))
        self._ticks = 0 if events else self._ticks + 1
        if self._ticks == HEARTBEAT_TICKS:
            self._ticks = 0
            return b": still here\n\n"
        return events

    def _events(self, project: Project) -> list[bytes]:
        session = project.current
        if session is None or session.why_not_readable:
            return []
        events, view = [], session.view
        if view.status is not self._status:
            self._status = view.status
            events.append(b"event: status\ndata: %b\n\n" % view.status)
        changes = view.tasks.changes
        if changes is not self._changes:  # the project is read again
            self._changes, self._upto = changes, 0
        seen = changes.since(self._upto)
        self._upto = seen.upto
        if seen.values:
            events.append(b"event: posteriors\ndata: [%b]\n\n" % b",".join(seen.values))
        return events


# `/`: the page, and its files.


FOLDER = Path(__file__).parent.parent / "page"
INDEX = "index.html"
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class PageRoutes:
    """The page itself needs no token: it asks for one before it shows any data."""

    def routes(self) -> Sequence[Route]:
        """Return a route for each file, so that no path of a request is looked up on disk."""
        return [
            Route("GET", address(file), served(file), is_open=True)
            for file in sorted(FOLDER.iterdir())
        ]


def address(file: Path) -> str:
    """Return the path of a file of the page.

    >>> address(Path("page/index.html")), address(Path("page/page.css"))
    ('/', '/page.css')
    """
    return "/" if file.name == INDEX else f"/{file.name}"


def served(file: Path) -> Handler:
    """Return the handler that serves a file of the page."""
    body, kind = file.read_bytes(), TYPES[file.suffix]

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve
