"""`/workers`: one worker, or a page of workers."""

from collections.abc import Sequence

from aiohttp import web

from pipeline.gateway.describing import (
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

PAGE_OF_WORKERS = operation(
    "A page of workers: by the lower end of their interval (best), by the upper end (worst), or "
    "by how many labels they have given (labels).",
    record(workers=array(ref("Worker")), next=nullable(STRING)),
    query("order", "Who come first.", {"enum": ["best", "worst", "labels"]}),
    *PAGE,
    PROJECT,
    errors=(400, 404, 503),
)
ONE_WORKER = operation(
    "The accuracy of a worker, and what else is estimated.",
    ref("Worker"),
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
        """A worker."""
        found = self.projects.of(request).readable.view.workers.get(request.match_info["worker"])
        if found is None:
            raise Problem(404, "no such worker: a worker is known from their first label on")
        return json(found)
