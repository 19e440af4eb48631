"""`/status`, `/history`, `/confidence` and `/projects`: how it is going, in numbers."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.projects import Project, Projects
from pipeline.gateway.routing import Route, json


class StatusRoutes:
    """What was made in the background: a request costs nothing."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/status", self.status),
            Route("GET", "/history", self.history),
            Route("GET", "/confidence", self.confidence),
            Route("GET", "/projects", self.all_projects),
        ]

    async def status(self, request: web.Request) -> web.Response:
        """The summary, as `sbic status --json` prints it."""
        return json(self.projects.of(request).readable.view.status)

    async def history(self, request: web.Request) -> web.Response:
        """How it went since the gateway was started."""
        points = self.projects.of(request).readable.view.history.points
        return json(dumps({"points": [point._asdict() for point in points]}))

    async def confidence(self, request: web.Request) -> web.Response:
        """How many predictions are how probable, and how long a label takes to be counted."""
        view = self.projects.of(request).readable.view
        latency = view.tasks.latency.as_object()
        return json(dumps({"bins": view.tasks.tally.bins, "latency": latency}))

    async def all_projects(self, _request: web.Request) -> web.Response:
        """The projects that are served here."""
        listed = [described(project) for project in self.projects.by_prefix.values()]
        return json(dumps({"projects": listed, "default": self.projects.default}))


def described(project: Project) -> dict[str, object]:
    """A project with its classes and its algorithm, as far as they are known."""
    now = project.current
    return {
        "prefix": project.prefix,
        "classes": None if now is None else now.settings.crowd_classes.labels,
        "algorithm": None if now is None else now.settings.chosen_algorithm,
    }
