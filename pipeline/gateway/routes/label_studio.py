"""`/hooks/label-studio`: annotations of Label Studio become labels."""

import logging
from collections.abc import Sequence

from aiohttp import web
from orjson import JSONDecodeError, dumps, loads

from pipeline.gateway.body import JSON, read_body
from pipeline.gateway.describing import INTEGER, PROJECT, STRING, array, operation, query, ref
from pipeline.gateway.errors import Problem, unavailable
from pipeline.gateway.lane import Row
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.outbox import NotAcknowledged
from pipeline.gateway.projects import Projects
from pipeline.gateway.routing import Route, json
from pipeline.gateway.session import Session
from pipeline.kafka.errors import ClusterError
from pipeline.label_studio import choices as label_studio
from pipeline.label_studio.annotations import Annotations
from pipeline.label_studio.choices import Choices, label_map_of
from pipeline.label_studio.events import Event, read_event
from pipeline.label_studio.record import Record, encode_record

log = logging.getLogger("sbic")

FIXED_BY = "sbic import label-studio EXPORT.json sends it"

HOOK = operation(
    "A webhook of Label Studio: annotations created, updated and deleted become labels; other "
    "actions are accepted and ignored. `unknown` has the ids of deleted annotations that are not "
    "in the labels topic.",
    {
        "type": "object",
        "required": ["labels"],
        "properties": {"labels": array(ref("Place")), "unknown": array(INTEGER)},
    },
    PROJECT,
    query("control", "The control whose choices are labels.  Default: the only one.", STRING),
    query("map", "The labels of choices, such as `Yes:1,No:-1,Unsure:0`.", STRING),
    body={JSON: {"type": "object", "required": ["action"], "properties": {"action": STRING}}},
    errors=(400, 404, 408, 413, 415, 422, 503),
)


class LabelStudioRoutes:
    """The webhook. Label Studio does not retry, so every lost event is logged."""

    def __init__(self, projects: Projects, metrics: Metrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [Route("POST", "/hooks/label-studio", self.hook, HOOK)]

    async def hook(self, request: web.Request) -> web.Response:
        """Publish the labels of an event, and answer when they are acknowledged."""
        session = self.projects.of(request).session
        try:
            event = read_event(loads(await read_body(request, JSON)), _choices(request, session))
        except JSONDecodeError as error:
            raise Problem(400, f"the body is not JSON: {error}") from None
        except label_studio.Problem as problem:
            log.warning("a webhook of Label Studio is refused: %s; %s", problem, FIXED_BY)
            raise Problem(
                422, str(problem), problems=[{"index": 0, "reason": str(problem)}]
            ) from None
        try:
            return await self._take(session, event)
        except (ClusterError, NotAcknowledged) as error:
            log.warning("a webhook of Label Studio is lost: %s; %s", error, FIXED_BY)
            raise unavailable(str(error)) from None

    async def _take(self, session: Session, event: Event) -> web.Response:
        if not event.updated and not event.deleted:  # new ones do not depend on known ones
            return await self._send(session, [Record.of(created) for created in event.created])
        async with session.annotations.up_to_date() as known:
            records, unknown = _records(known, event)
            return await self._send(session, records, unknown)

    async def _send(
        self, session: Session, records: Sequence[Record], unknown: Sequence[int] = ()
    ) -> web.Response:
        rows = [Row(record.slot.worker.encode(), encode_record(record)) for record in records]
        places = await session.outbox.send(session.topics.labels.name, rows) if rows else []
        self.metrics.sent("labels", len(places))
        answer: dict[str, object] = {"labels": [place._asdict() for place in places]}
        if unknown:
            listed = ", ".join(map(str, unknown[:10])) + (", ..." if unknown[10:] else "")
            log.warning(
                "Label Studio has deleted annotations that the topic does not have: %s", listed
            )
            answer["unknown"] = list(unknown)
        return json(dumps(answer))


def _choices(request: web.Request, session: Session) -> Choices:
    classes = session.settings.crowd_classes
    label_map = request.query.get("map")
    labels = {} if label_map is None else label_map_of(label_map, classes)
    return Choices(classes, request.query.get("control"), labels)


def _records(known: Annotations, event: Event) -> tuple[list[Record], list[int]]:
    """The records to send, which `known` then contains, and the ids of unknown annotations."""
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
    for record in records:
        known.learn(record)
    return records
