"""`POST /labels` and `POST /tasks`: publish records, answered when they are acknowledged."""

from collections.abc import Sequence

from aiohttp import web

from pipeline.gateway.body import JSON, LINES, parsed, read_body, values_in
from pipeline.gateway.describing import (
    PROJECT,
    STRING,
    Schema,
    array,
    operation,
    record,
    ref,
)
from pipeline.gateway.errors import Problem, unavailable
from pipeline.gateway.lane import Place, Row
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.outbox import NotAcknowledged
from pipeline.gateway.projects import Projects
from pipeline.gateway.routing import Route, json
from pipeline.gateway.session import Session
from pipeline.topics import Topic

PLACES = array(ref("Place"))
WRITING_ERRORS = (400, 404, 408, 413, 415, 422, 503)


def one_or_more(name: str) -> dict[str, Schema]:
    """The body of one record, or several, of a schema."""
    return {JSON: {"anyOf": [ref(name), array(ref(name))]}, LINES: STRING}


LABELS = operation(
    "Send labels; answered when Kafka has acknowledged all of them, with the place of each.",
    record(labels=PLACES),
    PROJECT,
    body=one_or_more("Label"),
    errors=WRITING_ERRORS,
)
TASKS = operation(
    "Describe tasks; answered when Kafka has acknowledged all of them, with the place of each.",
    record(tasks=PLACES),
    PROJECT,
    body=one_or_more("Task"),
    errors=WRITING_ERRORS,
)


class WritingRoutes:
    """All records are checked before any is sent, by the same rules as in the pipeline."""

    def __init__(self, projects: Projects, metrics: Metrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("POST", "/labels", self.labels, LABELS),
            Route("POST", "/tasks", self.tasks, TASKS),
        ]

    async def labels(self, request: web.Request) -> web.Response:
        """Send labels, each keyed by its worker."""
        session = self.projects.of(request).session
        body = await read_body(request, JSON, LINES)
        rows = parsed(values_in(body, request.content_type), session.label_row)
        return await self._send(session, "labels", session.topics.labels, rows)

    async def tasks(self, request: web.Request) -> web.Response:
        """Send descriptions of tasks, each keyed by its task."""
        session = self.projects.of(request).session
        body = await read_body(request, JSON, LINES)
        rows = parsed(values_in(body, request.content_type), session.task_row)
        return await self._send(session, "tasks", session.topics.tasks, rows)

    async def _send(
        self, session: Session, kind: str, topic: Topic, rows: Sequence[Row]
    ) -> web.Response:
        try:
            places = await session.outbox.send(topic.name, rows)
        except NotAcknowledged as error:
            raise not_all(error, kind) from None
        self.metrics.sent(kind, len(places))
        return json(b'{"%b":[%b]}' % (kind.encode(), b",".join(map(place_json, places))))


def place_json(place: Place) -> bytes:
    """A place as JSON.

    >>> place_json(Place(3, 17)), place_json(Place(3, None))
    (b'{"partition":3,"offset":17}', b'{"partition":3,"offset":null}')
    """
    if place.offset is None:
        return b'{"partition":%d,"offset":null}' % place.partition
    return b'{"partition":%d,"offset":%d}' % (place.partition, place.offset)


def not_all(error: NotAcknowledged, kind: str) -> Problem:
    """503, with the places of the records that were acknowledged."""
    there = [place and place._asdict() for place in error.places]
    acknowledged = sum(place is not None for place in there)
    message = (
        f"{error}; {acknowledged} of {len(there)} were acknowledged: send the others again, "
        "which is safe even if some of them have arrived"
    )
    return unavailable(message, {kind: there})
