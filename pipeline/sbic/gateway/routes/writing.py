"""`POST /labels`, `/tasks`, `/workers`, `/rules` and `/next`, and the hook of Label Studio."""

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
from sbic.integrations import label_studio
from sbic.integrations.label_studio import (
    Annotations,
    Choices,
    Event,
    Record,
    Unusable,
    encode_record,
    label_map_of,
    read_event,
)
from sbic.kafka.errors import ClusterError, MissingRights
from sbic.kafka.writer import At, NotAcknowledged
from sbic.project.changes import BadChange, change_rules
from sbic.project.revision import project_settings
from sbic.project.settings import PROJECT_SETTINGS, SPECS, BadSetting, command_line
from sbic.project.topics import Topic
from sbic.wire.assignments import parse_request
from sbic.wire.partitions import Row

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


# `/hooks/label-studio`: annotations of Label Studio become labels.


log = logging.getLogger("sbic")

FIXED_BY = "sbic import label-studio EXPORT.json sends it"


class LabelStudioRoutes:
    """The webhook. Label Studio does not retry, so every lost event is logged."""

    def __init__(self, projects: Projects, metrics: GatewayMetrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        return [Route("POST", "/hooks/label-studio", self.hook)]

    async def hook(self, request: web.Request) -> web.Response:
        """Publish the labels of an event, and answer when they are acknowledged."""
        session = self.projects.of(request).session
        try:
            event = read_event(loads(await read_body(request, JSON)), _choices(request, session))
        except JSONDecodeError as error:
            raise HttpProblem(400, f"the body is not JSON: {error}") from None
        except label_studio.Problem as problem:
            log.warning("a webhook of Label Studio is refused: %s; %s", problem, FIXED_BY)
            raise HttpProblem(
                422, str(problem), problems=[{"index": 0, "reason": str(problem)}]
            ) from None
        try:
            return await self._take(session, event)
        except (ClusterError, NotAcknowledged) as error:
            log.warning("a webhook of Label Studio is lost: %s; %s", error, FIXED_BY)
            raise unavailable(str(error)) from None

    async def _take(self, session: ProjectSession, event: Event) -> web.Response:
        await self._send_unusable(session, event.unusable)
        if not event.updated and not event.deleted:  # new ones do not depend on known ones
            records = [Record.of(created) for created in event.created]
            return await self._send(session, records, event.unusable)
        async with session.annotations.up_to_date() as known:
            records, unknown = _records(known, event)
            return await self._send(session, records, event.unusable, unknown)

    async def _send_unusable(self, session: ProjectSession, unusable: Sequence[Unusable]) -> None:
        """Publish annotations that are no labels: an instance makes them dead letters."""
        if not unusable:
            return
        rows = [Row(each.slot.worker.encode(), each.encode()) for each in unusable]
        await session.writer.send(session.topics.labels.name, rows)
        self.metrics.sent("labels", len(rows))
        log.warning("Label Studio sent what is no label: %s; a dead letter", unusable[0].problem)

    async def _send(
        self,
        session: ProjectSession,
        records: Sequence[Record],
        unusable: Sequence[Unusable],
        unknown: Sequence[int] = (),
    ) -> web.Response:
        rows = [Row(record.slot.worker.encode(), encode_record(record)) for record in records]
        places = await session.writer.send(session.topics.labels.name, rows) if rows else []
        self.metrics.sent("labels", len(places))
        answer: dict[str, object] = {"labels": [place._asdict() for place in places]}
        if unusable:
            answer["unusable"] = [{"id": each.id, "reason": each.problem} for each in unusable]
        if unknown:
            listed = ", ".join(map(str, unknown[:10])) + (", ..." if unknown[10:] else "")
            log.warning(
                "Label Studio has deleted annotations that the topic does not have: %s", listed
            )
            answer["unknown"] = list(unknown)
        return json(dumps(answer))


def _choices(request: web.Request, session: ProjectSession) -> Choices:
    classes = session.settings.crowd_classes
    label_map = request.query.get("map")
    labels = {} if label_map is None else label_map_of(label_map, classes)
    return Choices(classes, request.query.get("control"), labels)


def _records(known: Annotations, event: Event) -> tuple[list[Record], list[int]]:
    """Get the records to send, which `known` then contains, and the ids of unknown annotations."""
    records: list[Record] = []
    unknown: list[int] = []
    for annotation in event.updated:
        records += _learned(known, known.given(annotation))
    for name in event.deleted:
        found = known.deleted(name)
        if found is None:
            unknown.append(name)
        else:
            records += _learned(known, found)
    return records, unknown


def _learned(known: Annotations, records: list[Record]) -> list[Record]:
    for one in records:
        known.learn(one)
    return records
