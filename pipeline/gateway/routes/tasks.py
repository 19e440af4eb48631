"""`/tasks`: one task, or a page of tasks."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.describing import (
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
from pipeline.gateway.errors import Problem
from pipeline.gateway.projects import Projects
from pipeline.gateway.routes.pages import page_of
from pipeline.gateway.routing import Route, json

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
