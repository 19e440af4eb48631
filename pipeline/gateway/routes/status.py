"""`/status`, `/history`, `/confidence` and `/projects`: figures of the projects."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.describing import (
    INTEGER,
    NUMBER,
    PROJECT,
    STRING,
    array,
    nullable,
    operation,
    record,
    ref,
)
from pipeline.gateway.projects import Project, Projects
from pipeline.gateway.routing import Route, json

STATUS = operation(
    "How the project is doing, as `sbic status --json` prints it.",
    ref("Status"),
    PROJECT,
    errors=(404, 503),
)
POINT = record(at=INTEGER, labels=INTEGER, expected_wrong=NUMBER, open=INTEGER, closed=INTEGER)
HISTORY = operation(
    "The history since this gateway was started, in at most 500 points.",
    record(points=array(POINT, maxItems=500)),
    PROJECT,
    errors=(404, 503),
)
CONFIDENCE = operation(
    "A histogram of the confidence of predictions, in 20 bins from 0 to 1, of tasks with labels "
    "except gold; and the latency from a label to its posterior in the last ten minutes.",
    record(
        bins=array(INTEGER, minItems=20, maxItems=20),
        latency=record(median_ms=nullable(NUMBER), p99_ms=nullable(NUMBER)),
    ),
    PROJECT,
    errors=(404, 503),
)
LISTED = record(
    prefix=STRING,
    classes=nullable(array({"type": ["integer", "string"]})),
    algorithm=nullable(STRING),
)
PROJECTS = operation(
    "The projects that this gateway serves; classes are null until the project has been read.",
    record(projects=array(LISTED), default=STRING),
)


class StatusRoutes:
    """Figures that are computed in the background, so that requests are cheap."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/status", self.status, STATUS),
            Route("GET", "/history", self.history, HISTORY),
            Route("GET", "/confidence", self.confidence, CONFIDENCE),
            Route("GET", "/projects", self.all_projects, PROJECTS),
        ]

    async def status(self, request: web.Request) -> web.Response:
        """The summary, as `sbic status --json` prints it."""
        return json(self.projects.of(request).readable.view.status)

    async def history(self, request: web.Request) -> web.Response:
        """The history since the gateway was started."""
        points = self.projects.of(request).readable.view.history.points
        return json(dumps({"points": [point._asdict() for point in points]}))

    async def confidence(self, request: web.Request) -> web.Response:
        """The histogram of confidence, and the latency from a label to its posterior."""
        view = self.projects.of(request).readable.view
        latency = view.tasks.latency.as_object()
        return json(dumps({"bins": view.tasks.tally.bins, "latency": latency}))

    async def all_projects(self, _request: web.Request) -> web.Response:
        """The projects that this gateway serves."""
        listed = [described(project) for project in self.projects.by_prefix.values()]
        return json(dumps({"projects": listed, "default": self.projects.default}))


def described(project: Project) -> dict[str, object]:
    """A project with its classes and its algorithm, if they are known."""
    now = project.current
    return {
        "prefix": project.prefix,
        "classes": None if now is None else now.settings.crowd_classes.labels,
        "algorithm": None if now is None else now.settings.chosen_algorithm,
    }
