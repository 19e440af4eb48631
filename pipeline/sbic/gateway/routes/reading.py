"""`/status`, `/tasks`, `/workers` and what else is read once."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from aiohttp import web
from orjson import dumps

from sbic.gateway.access import Route, json
from sbic.gateway.body import cursor_of, limit_of, order_of
from sbic.gateway.config import HttpProblem
from sbic.gateway.session import Project, Projects
from sbic.gateway.view import LiveRanking


class RankedView(Protocol):
    """A view of tasks or workers."""

    orders: dict[str, LiveRanking]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """Return the records of these numbers, as published."""


async def page_of(name: str, view: RankedView, request: web.Request, default: str) -> web.Response:
    """Return the requested page, as an array of this name."""
    order = order_of(request, view.orders, default)
    page = await view.orders[order].page(cursor_of(request), limit_of(request))
    following = dumps(page.next and str(page.next))
    listed = b",".join(view.values(page.numbers))
    return json(b'{"%b":[%b],"next":%b}' % (name.encode(), listed, following))


# `/status`, `/history`, `/confidence` and `/projects`: figures of the projects.


class StatusRoutes:
    """Figures that are computed in the background, so that requests are cheap."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/status", self.status),
            Route("GET", "/history", self.history),
            Route("GET", "/confidence", self.confidence),
            Route("GET", "/projects", self.all_projects),
        ]

    async def status(self, request: web.Request) -> web.Response:
        """Return the summary, as `sbic status --json` prints it."""
        return json(self.projects.of(request).readable.view.status)

    async def history(self, request: web.Request) -> web.Response:
        """Return the history since the gateway was started."""
        points = self.projects.of(request).readable.view.history.points
        return json(dumps({"points": [point._asdict() for point in points]}))

    async def confidence(self, request: web.Request) -> web.Response:
        """Return the histogram of confidence, and the latency from a label to its posterior."""
        view = self.projects.of(request).readable.view
        latency = view.tasks.latency.as_object()
        return json(dumps({"bins": view.tasks.tally.bins, "latency": latency}))

    async def all_projects(self, _request: web.Request) -> web.Response:
        """Return the projects that this gateway serves."""
        listed = [described(project) for project in self.projects.by_prefix.values()]
        return json(dumps({"projects": listed, "default": self.projects.default}))


def described(project: Project) -> dict[str, object]:
    """Return a project with its classes and its algorithm, if they are known."""
    now = project.current
    return {
        "prefix": project.prefix,
        "classes": None if now is None else now.settings.crowd_classes.labels,
        "algorithm": None if now is None else now.settings.chosen_algorithm,
    }


# `/report`: whom to trust, who copies, what is wrong.


class ReportRoutes:
    """The report on the judges, made in a thread."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/report", self.report)]

    async def report(self, request: web.Request) -> web.Response:
        """Return the report, as `sbic report --json` prints it."""
        session = self.projects.of(request).readable
        wanted = request.query.get("gold_only", "false")
        if wanted not in ("true", "false"):
            raise HttpProblem(400, "gold_only must be true or false")
        report = session.gold_report if wanted == "true" else session.report
        return json(await report.latest())


# `/tasks`: one task, or a page of tasks.


class TaskRoutes:
    """Posteriors, as published."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/tasks", self.page),
            Route("GET", "/tasks/{task}", self.one),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """Return a page of tasks in an order."""
        tasks = self.projects.of(request).readable.view.tasks
        return await page_of("tasks", tasks, request, default="disputed")

    async def one(self, request: web.Request) -> web.Response:
        """Return a task with its labels."""
        view = self.projects.of(request).readable.view
        task = request.match_info["task"]
        posterior = view.tasks.get(task)
        if posterior is None:
            raise HttpProblem(
                404, "no such task: a task exists from its first label on, or from POST /tasks"
            )
        answers = dumps(view.answers(task))
        return json(posterior.rstrip()[:-1] + b',"answers":%b}' % answers)


# `/workers`: one worker, or a page of workers.


class WorkerRoutes:
    """Workers' records, as published."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/workers", self.page),
            Route("GET", "/workers/{worker}", self.one),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """Return a page of workers in an order."""
        workers = self.projects.of(request).readable.view.workers
        return await page_of("workers", workers, request, default="best")

    async def one(self, request: web.Request) -> web.Response:
        """Return a worker with their last labels."""
        view = self.projects.of(request).readable.view
        worker = request.match_info["worker"]
        found = view.workers.get(worker)
        if found is None:
            raise HttpProblem(404, "no such worker: a worker is known from their first label on")
        return json(found.rstrip()[:-1] + b',"answers":%b}' % dumps(view.given_by(worker)))
