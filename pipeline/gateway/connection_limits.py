"""Limits connections: a maximum number, and a timeout for clients that do not read."""

import asyncio
from typing import cast

from aiohttp import web

STUCK_SECONDS = 20


class GuardedSite(web.BaseSite):
    """A TCP port that immediately closes connections beyond the limit."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, most: int) -> None:
        super().__init__(runner)
        self._host = host
        self._port = port
        self._most = most
        self._open = 0

    @property
    def name(self) -> str:
        """The address that it listens on."""
        server = cast(asyncio.Server | None, self._server)
        port = self._port if server is None else server.sockets[0].getsockname()[1]
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    def count(self) -> float:
        """How many connections are open."""
        return self._open

    async def start(self) -> None:
        """Start to listen; port 0 is any free port."""
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connection, self._host, self._port, backlog=self._backlog
        )

    def _connection(self) -> asyncio.Protocol:
        if self._open >= self._most:
            return _Refusal()
        assert self._runner.server is not None
        return _Connection(self._runner.server(), self)

    def opened(self) -> None:
        """Count a connection that was opened."""
        self._open += 1

    def closed(self) -> None:
        """Count a connection that was closed."""
        self._open -= 1


class _Refusal(asyncio.Protocol):
    """Closes a connection immediately; the client may try again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class _Connection(asyncio.Protocol):
    """aiohttp's protocol, with a timeout for clients that do not read their answers."""

    def __init__(self, inner: asyncio.Protocol, site: GuardedSite) -> None:
        self._inner = inner
        self._site = site
        self._transport: asyncio.Transport | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self.data_received = inner.data_received  # type: ignore[method-assign]  # the hot path
        self.eof_received = inner.eof_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._site.opened()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._site.closed()
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
