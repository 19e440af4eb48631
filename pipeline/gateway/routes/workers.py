"""`/workers`: what is known of workers, one or a page of them."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.errors import Problem
from pipeline.gateway.parameters import cursor_of, limit_of, order_of
from pipeline.gateway.projects import Projects
from pipeline.gateway.routing import Route, json


class WorkerRoutes:
    """Workers' records, as they were published."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", "/workers", self.page),
            Route("GET", "/workers/{worker}", self.one),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """So many workers in an order."""
        workers = self.projects.of(request).readable.view.workers
        order = order_of(request, {**workers.orders}, "best")
        page = await workers.orders[order].page(cursor_of(request), limit_of(request))
        following = dumps(page.next and str(page.next))
        listed = b",".join(workers.values(page.numbers))
        return json(b'{"workers":[%b],"next":%b}' % (listed, following))

    async def one(self, request: web.Request) -> web.Response:
        """A worker."""
        found = self.projects.of(request).readable.view.workers.get(request.match_info["worker"])
        if found is None:
            raise Problem(404, "no such worker: one is known from their first label on")
        return json(found)
