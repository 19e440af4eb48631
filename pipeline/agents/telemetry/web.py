"""The web port: `/healthz`, `/readyz` and `/metrics`, for supervisors and Prometheus."""

from collections.abc import Callable
from errno import EADDRINUSE
from typing import Any

from aiohttp import web
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from pipeline.agents.errors import CannotStart


class Web(Service):
    """Serves the web port; `why_not_ready` returns None when the instance is ready."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        why_not_ready: Callable[[], str | None],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.host = host
        self.port = port
        self.registry = registry
        self.why_not_ready = why_not_ready

    async def on_start(self) -> None:
        """Listen; port 0 chooses a free port, which is then in `port`."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        try:
            await web.TCPSite(self.runner, self.host, self.port).start()
        except OSError as error:
            raise CannotStart(self._why_not(error)) from error
        self.port = self.runner.addresses[0][1]

    def _why_not(self, error: OSError) -> str:
        if error.errno == EADDRINUSE:
            return f"port {self.port} is taken; choose another with --web-port, or 0 for any"
        return f"cannot listen on {self.host}, port {self.port}: {error.strerror or error}"

    async def on_stop(self) -> None:
        """Stop listening."""
        await self.runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        # an unhealthy instance ends its process: one that answers is healthy
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        why_not = self.why_not_ready()
        if why_not is None:
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"not ready: {why_not}\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )
