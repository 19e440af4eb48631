"""The gateway as an aiohttp application: all routes behind one middleware."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from pipeline.gateway.config import GatewayConfig
from pipeline.gateway.gate import Gate
from pipeline.gateway.guard import Guard
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.projects import Projects
from pipeline.gateway.routes.description import DescriptionRoutes
from pipeline.gateway.routes.events import EventRoutes
from pipeline.gateway.routes.health import HealthRoutes
from pipeline.gateway.routes.label_studio import LabelStudioRoutes
from pipeline.gateway.routes.next import NextRoutes
from pipeline.gateway.routes.page import PageRoutes
from pipeline.gateway.routes.status import StatusRoutes
from pipeline.gateway.routes.tasks import TaskRoutes
from pipeline.gateway.routes.workers import WorkerRoutes
from pipeline.gateway.routes.writing import WritingRoutes
from pipeline.gateway.routing import Routes

MAX_BODY_BYTES = 1 << 20


def subjects(projects: Projects, metrics: Metrics, stopping: asyncio.Event) -> Sequence[Routes]:
    """All routes, by subject: add new ones here."""
    return [
        WritingRoutes(projects, metrics),
        NextRoutes(projects, metrics),
        LabelStudioRoutes(projects, metrics),
        TaskRoutes(projects),
        WorkerRoutes(projects),
        StatusRoutes(projects),
        EventRoutes(projects, stopping),
        HealthRoutes(projects, metrics, stopping),
        PageRoutes(),
    ]


def gateway_app(
    config: GatewayConfig, projects: Projects, metrics: Metrics, stopping: asyncio.Event
) -> web.Application:
    """An application that serves these projects; `stopping` ends its streams."""
    every = [route for some in subjects(projects, metrics, stopping) for route in some.routes()]
    every += DescriptionRoutes(every).routes()
    gate = Gate({route.handler: route for route in every}, Guard(config), metrics)
    app = web.Application(middlewares=[gate.handle], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(gate.add_headers)
    for route in every:
        app.router.add_route(route.method, route.path, route.handler)
    return app
