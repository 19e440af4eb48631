"""`POST /labels`, `/tasks`, `/workers`, `/rules` and `/next`."""

import logging
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from aiohttp import web
from orjson import JSONDecodeError, dumps, loads

from sbic.foreign import shown
from sbic.gateway.access import GatewayMetrics, Route, json
from sbic.gateway.body import JSON, LINES, parsed, read_body, values_in
from sbic.gateway.config import HttpProblem, unavailable
from sbic.gateway.session import Projects, ProjectSession
from sbic.kafka.errors import ClusterError, MissingRights
from sbic.kafka.writer import At, NotAcknowledged
from sbic.project.changes import BadChange, change_rules
from sbic.project.revision import project_settings
from sbic.project.settings import PROJECT_SETTINGS, SPECS, BadSetting, command_line
from sbic.project.topics import Topic
from sbic.wire.assignments import parse_request
from sbic.wire.partitions import Row

log = logging.getLogger("sbic")

RULE_NAMES = tuple(name for name in PROJECT_SETTINGS if SPECS[name].change == "at once")


def rules_response(settings: Mapping[str, Any]) -> web.Response:
    """All rules of a project, as JSON."""
    return json(dumps({"rules": {name: settings[name] for name in RULE_NAMES}}))


def changed_rules(body: bytes) -> dict[str, str]:
    """Return the rules in a body, as texts; raise `HttpProblem`.

    >>> changed_rules(b'{"stop_labels": 5, "budget": null}')
    {'stop_labels': '5', 'budget': 'none'}
    """
    try:
        given = loads(body)
    except JSONDecodeError:
        raise HttpProblem(400, "the body is not JSON") from None
    if type(given) is not dict or not given:
        raise HttpProblem(422, 'the body is not an object with rules, such as {"stop_labels": 5}')
    texts = {}
    for name, value in given.items():
        if name not in RULE_NAMES:
            known = ", ".join(RULE_NAMES)
            raise HttpProblem(422, f"{shown(name)} is not a rule; rules are {known}")
        if type(value) not in (int, float, bool, NoneType):
            raise HttpProblem(
                422, f"{name} must be a number, true, false or null, not {shown(value)}"
            )
        texts[name] = "none" if value is None else str(value)
    return texts


class WritingRoutes:
    """All records are checked before any is sent, by the same rules as in the pipeline."""

    def __init__(self, projects: Projects, metrics: GatewayMetrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        return [
            Route("POST", "/labels", self.labels),
            Route("POST", "/tasks", self.tasks),
            Route("POST", "/workers", self.workers),
            Route("GET", "/rules", self.rules),
            Route("POST", "/rules", self.change_rules),
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

    async def workers(self, request: web.Request) -> web.Response:
        """Send what the owner says of workers, each keyed by the worker."""
        session = self.projects.of(request).session
        body = await read_body(request, JSON, LINES)
        rows = parsed(values_in(body, request.content_type), session.roster_row)
        return await self._send(session, "workers", session.topics.roster, rows)

    async def rules(self, request: web.Request) -> web.Response:
        """Show the rules in force."""
        return rules_response(project_settings(self.projects.of(request).session.settings))

    async def change_rules(self, request: web.Request) -> web.Response:
        """Append a revision to the project, if this gateway may."""
        session = self.projects.of(request).session
        body = await read_body(request, JSON)
        try:
            revision = await change_rules(session.settings, changed_rules(body))
        except (BadChange, BadSetting) as error:
            raise HttpProblem(422, f"{error}; nothing was changed") from None
        except MissingRights as error:
            raise HttpProblem(403, str(error)) from None
        except ClusterError as error:
            raise unavailable(str(error)) from None
        log.info(
            "%s: rules changed over HTTP, revision %d", session.settings.prefix, revision.number
        )
        return rules_response(revision.settings)

    async def _send(
        self, session: ProjectSession, kind: str, topic: Topic, rows: Sequence[Row]
    ) -> web.Response:
        try:
            places = await session.writer.send(topic.name, rows)
        except NotAcknowledged as error:
            raise not_all(error, kind) from None
        self.metrics.sent(kind, len(places))
        return json(b'{"%b":[%b]}' % (kind.encode(), b",".join(map(place_json, places))))


def place_json(place: At) -> bytes:
    """Return a place as JSON.

    >>> place_json(At(3, 17)), place_json(At(3, None))
    (b'{"partition":3,"offset":17}', b'{"partition":3,"offset":null}')
    """
    if place.offset is None:
        return b'{"partition":%d,"offset":null}' % place.partition
    return b'{"partition":%d,"offset":%d}' % (place.partition, place.offset)


def not_all(error: NotAcknowledged, kind: str) -> HttpProblem:
    """503, with the places of the records that were acknowledged."""
    there = [place and place._asdict() for place in error.places]
    acknowledged = sum(place is not None for place in there)
    message = (
        f"{error}; {acknowledged} of {len(there)} were acknowledged: send the others again, "
        "which is safe even if some of them have arrived"
    )
    return unavailable(message, {kind: there})


# `POST /next`: the tasks that a worker should answer next.


NO_MEMBERS = ("Empty", "Dead")  # states of a consumer group


class NextRoutes:
    """Requests, answered when the pipeline has assigned tasks."""

    def __init__(self, projects: Projects, metrics: GatewayMetrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        return [Route("POST", "/next", self.next)]

    async def next(self, request: web.Request) -> web.Response:
        """Return the assignments of a worker, or the reason why there are none."""
        session = self.projects.of(request).readable
        (asked,) = parsed([await read_body(request, JSON)], parse_request)
        start = command_line(session.settings, "run")
        if session.view.summary.activity.group_state in NO_MEMBERS:
            # the request would be answered later, and its lease would block the task
            raise unavailable(f"no instance is running: start one with: {start}")
        worker, count = asked
        try:
            records = await session.asker.ask(worker, count)
        except (NotAcknowledged, ClusterError) as error:
            raise unavailable(f"{error}: ask again") from None
        self.metrics.sent("requests", 1)
        if not records:
            raise unavailable(f"no instance has answered: is one running? Start one with: {start}")
        given = [record for record in records if record["task"] is not None]
        reason = records[-1].get("reason")
        return json(dumps({"assignments": given, "reason": reason}))
