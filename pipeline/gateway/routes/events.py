"""`/events`: the status and changed posteriors as server-sent events, at most twice a second."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from pipeline.gateway.describing import PROJECT, STRING, operation
from pipeline.gateway.errors import unavailable
from pipeline.gateway.projects import Project, Projects
from pipeline.gateway.routing import Route
from pipeline.gateway.waiting import wait_for

TICK_SECONDS = 0.5
HEARTBEAT_TICKS = 30
MOST_STREAMS = 200

EVENTS = operation(
    "Server-sent events: `status` with the status when it has changed, and `posteriors` with the "
    "last 20 that changed, at most twice a second; a comment after 15 seconds without an event.",
    STRING,
    PROJECT,
    errors=(404, 503),
    kind="text/event-stream",
)


class EventRoutes:
    """Server-sent events; `stopping` ends all streams."""

    def __init__(self, projects: Projects, stopping: asyncio.Event) -> None:
        self.projects = projects
        self.stopping = stopping
        self.streams = 0

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [Route("GET", "/events", self.events, EVENTS)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """A stream that ends when the client disconnects, or the gateway stops."""
        if self.streams >= MOST_STREAMS:
            raise unavailable(f"{MOST_STREAMS} streams are open already", retry_after=10)
        project = self.projects.of(request)
        _ = project.readable
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self.streams += 1
        try:
            await response.prepare(request)
            await self._send(response, project)
        except ConnectionResetError:
            pass  # the client has disconnected
        finally:
            self.streams -= 1
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
        """The events since the last tick; a comment if there were none for a while."""
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
