"""`POST /next`: the tasks that a worker should answer next."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.body import JSON, parsed, read_body
from pipeline.gateway.describing import PROJECT, STRING, array, nullable, operation, record, ref
from pipeline.gateway.errors import unavailable
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.outbox import NotAcknowledged
from pipeline.gateway.projects import Projects
from pipeline.gateway.routing import Route, json
from pipeline.hints import command
from pipeline.records.requests import encode_request, parse_request

NO_MEMBERS = ("Empty", "Dead")  # states of a consumer group

NEXT = operation(
    "Tasks for a worker; if there are fewer than requested, `reason` says why.",
    record(assignments=array(ref("Assignment")), reason=nullable(STRING)),
    PROJECT,
    body={JSON: ref("Request")},
    errors=(404, 408, 413, 415, 422, 503),
)


class NextRoutes:
    """Requests, answered when the pipeline has assigned tasks."""

    def __init__(self, projects: Projects, metrics: Metrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [Route("POST", "/next", self.next, NEXT)]

    async def next(self, request: web.Request) -> web.Response:
        """The assignments of a worker, or the reason why there are none."""
        session = self.projects.of(request).readable
        (asked,) = parsed([await read_body(request, JSON)], parse_request)
        start = command(session.settings, "run")
        if session.view.summary.activity.group_state in NO_MEMBERS:
            # the request would be answered later, and its lease would block the task
            raise unavailable(f"no instance is running: start one with: {start}")
        worker, count = asked
        try:
            records = await session.desk.ask(worker, count, encode_request(worker, count))
        except NotAcknowledged as error:
            raise unavailable(f"{error}: ask again") from None
        self.metrics.sent("requests", 1)
        if not records:
            raise unavailable(f"no instance has answered: is one running? Start one with: {start}")
        given = [record for record in records if record["task"] is not None]
        reason = records[-1].get("reason")
        return json(dumps({"assignments": given, "reason": reason}))
