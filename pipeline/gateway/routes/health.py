"""`/healthz`, `/readyz` and `/metrics`, for supervisors and Prometheus."""

import asyncio
from collections.abc import Sequence

from aiohttp import web
from orjson import dumps
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pipeline.gateway.describing import STRING, operation, record
from pipeline.gateway.errors import unavailable
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.projects import Projects
from pipeline.gateway.routing import Route, json

STATE = record(status=STRING)
HEALTH = operation("The gateway is running.", STATE)
READY = operation("All projects can be served.", STATE, errors=(503,))
METRICS = operation("Metrics of this gateway, for Prometheus.", STRING, kind="text/plain")


class HealthRoutes:
    """Health checks, which need no token, and metrics, which do."""

    def __init__(self, projects: Projects, metrics: Metrics, stopping: asyncio.Event) -> None:
        self.projects = projects
        self.metrics = metrics
        self.stopping = stopping

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/healthz", self.healthz, HEALTH, is_open=True),
            Route("GET", "/readyz", self.readyz, READY, is_open=True),
            Route("GET", "/metrics", self.serve_metrics, METRICS),
        ]

    async def healthz(self, _request: web.Request) -> web.Response:
        """The process answers."""
        return json(b'{"status":"ok"}')

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether all projects can be served; if not, why, and how far reading has come."""
        why_not = "stopping" if self.stopping.is_set() else self.projects.why_not_ready
        if why_not:
            raise unavailable(f"not ready: {why_not}")
        return json(dumps({"status": "ready"}))

    async def serve_metrics(self, _request: web.Request) -> web.Response:
        """The metrics, in the format of Prometheus."""
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(self.metrics.registry), headers=headers)
