"""`/status`, `/tasks`, `/workers` and what else is read once."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from aiohttp import web
from orjson import dumps

from sbic.gateway.access import Route, json
from sbic.gateway.body import cursor_of, limit_of, order_of
from sbic.gateway.config import Problem
from sbic.gateway.openapi import (
    INTEGER,
    NUMBER,
    PAGE,
    PROJECT,
    STRING,
    array,
    in_path,
    nullable,
    operation,
    query,
    record,
    ref,
)
from sbic.gateway.session import Project, Projects
from sbic.gateway.view import LiveRanking


class Listed(Protocol):
    """A view of tasks or workers."""

    orders: dict[str, LiveRanking]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """The records of these numbers, as published."""


async def page_of(name: str, view: Listed, request: web.Request, default: str) -> web.Response:
    """The requested page, as an array of this name."""
    order = order_of(request, view.orders, default)
    page = await view.orders[order].page(cursor_of(request), limit_of(request))
    following = dumps(page.next and str(page.next))
    listed = b",".join(view.values(page.numbers))
    return json(b'{"%b":[%b],"next":%b}' % (name.encode(), listed, following))


# `/status`, `/history`, `/confidence` and `/projects`: figures of the projects.


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


# `/tasks`: one task, or a page of tasks.


PAGE_OF_TASKS = operation(
    "A page of tasks: the least certain first (disputed; of those with two labels or more), the "
    "last changed first (recent), or the most certain first (confidence).",
    record(tasks=array(ref("Posterior")), next=nullable(STRING)),
    query("order", "Which come first.", {"enum": ["disputed", "recent", "confidence"]}),
    *PAGE,
    PROJECT,
    errors=(400, 404, 503),
)
ANSWER = record(worker=STRING, label={"type": ["integer", "string"]}, accuracy=nullable(NUMBER))
ONE_TASK = operation(
    "The posterior of a task, and `answers`: the labels that stand, each with its worker's "
    "accuracy; null until the gateway has read all labels.",
    {"allOf": [ref("Posterior"), record(answers=nullable(array(ANSWER)))]},
    in_path("task", "The id of the task."),
    PROJECT,
    errors=(404, 503),
)


class TaskRoutes:
    """Posteriors, as published."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/tasks", self.page, PAGE_OF_TASKS),
            Route("GET", "/tasks/{task}", self.one, ONE_TASK),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """A page of tasks in an order."""
        tasks = self.projects.of(request).readable.view.tasks
        return await page_of("tasks", tasks, request, default="disputed")

    async def one(self, request: web.Request) -> web.Response:
        """A task with its labels."""
        view = self.projects.of(request).readable.view
        task = request.match_info["task"]
        posterior = view.tasks.get(task)
        if posterior is None:
            raise Problem(
                404, "no such task: a task exists from its first label on, or from POST /tasks"
            )
        answers = dumps(view.answers(task))
        return json(posterior.rstrip()[:-1] + b',"answers":%b}' % answers)


# `/workers`: one worker, or a page of workers.


PAGE_OF_WORKERS = operation(
    "A page of workers: by the lower end of their interval (best), by the upper end (worst), or "
    "by how many labels they have given (labels).",
    record(workers=array(ref("Worker")), next=nullable(STRING)),
    query("order", "Who come first.", {"enum": ["best", "worst", "labels"]}),
    *PAGE,
    PROJECT,
    errors=(400, 404, 503),
)
LABEL = {"type": ["integer", "string"]}
GIVEN = record(task=STRING, label=LABEL, prediction={"type": ["integer", "string", "null"]})
ONE_WORKER = operation(
    "The accuracy of a worker, what else is estimated, and `answers`: the last 100 labels that "
    "stand, each with the prediction for its task; null until the gateway has read all labels.",
    {"allOf": [ref("Worker"), record(answers=nullable(array(GIVEN)))]},
    in_path("worker", "The id of the worker."),
    PROJECT,
    errors=(404, 503),
)


class WorkerRoutes:
    """Workers' records, as published."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/workers", self.page, PAGE_OF_WORKERS),
            Route("GET", "/workers/{worker}", self.one, ONE_WORKER),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """A page of workers in an order."""
        workers = self.projects.of(request).readable.view.workers
        return await page_of("workers", workers, request, default="best")

    async def one(self, request: web.Request) -> web.Response:
        """A worker with their last labels."""
        view = self.projects.of(request).readable.view
        worker = request.match_info["worker"]
        found = view.workers.get(worker)
        if found is None:
            raise Problem(404, "no such worker: a worker is known from their first label on")
        return json(found.rstrip()[:-1] + b',"answers":%b}' % dumps(view.given_by(worker)))
