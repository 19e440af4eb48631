"""Label Studio: annotations become labels, and posteriors predictions.

`/label-studio/PREFIX` speaks the protocol of a machine learning backend: Label Studio adds
`/health`, `/setup`, `/predict` and `/webhook` to it. A second part of the address,
`/label-studio/PREFIX/control=NAME&map=...`, says what choices mean, since Label Studio drops the
query of an address.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from orjson import JSONDecodeError, dumps, loads

from sbic.foreign import shown
from sbic.gateway.access import GatewayMetrics, Handler, Route, json
from sbic.gateway.body import JSON, read_body
from sbic.gateway.config import HttpProblem, unavailable
from sbic.gateway.session import Projects, ProjectSession
from sbic.integrations.label_studio import (
    Annotations,
    Choices,
    Event,
    Problem,
    Record,
    Unusable,
    encode_record,
    label_map_of,
    read_event,
)
from sbic.integrations.label_studio_predictions import choices_tag, users_of
from sbic.kafka.errors import ClusterError
from sbic.kafka.writer import NotAcknowledged
from sbic.wire.partitions import Row

log = logging.getLogger("sbic")

FIXED_BY = "sbic import label-studio EXPORT.json sends it"
BASES = "/label-studio/{project}", "/label-studio/{project}/{choices}"
MOST_TASKS_BYTES = 32 << 20  # Label Studio sends all tasks that somebody has selected at once


class WebhookRoutes:
    """The webhook. Label Studio does not retry, so every lost event is logged."""

    def __init__(self, projects: Projects, metrics: GatewayMetrics) -> None:
        self.projects = projects
        self.metrics = metrics

    def routes(self) -> Sequence[Route]:
        return [Route("POST", "/hooks/label-studio", self.hook)]

    async def hook(self, request: web.Request) -> web.Response:
        """Publish the labels of an event, and answer when they are acknowledged."""
        return await self.take(request, self.projects.of(request).session, request.query)

    async def take(
        self, request: web.Request, session: ProjectSession, parameters: Mapping[str, str]
    ) -> web.Response:
        """Publish the labels of an event; the parameters say what choices mean."""
        try:
            event = read_event(
                loads(await read_body(request, JSON)), choices_of(parameters, session)
            )
        except JSONDecodeError as error:
            raise HttpProblem(400, f"the body is not JSON: {error}") from None
        except Problem as problem:
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


def choices_of(parameters: Mapping[str, str], session: ProjectSession) -> Choices:
    """Return what choices mean, by the parameters of an address; raise `Problem`."""
    classes = session.settings.crowd_classes
    label_map = parameters.get("map")
    labels = {} if label_map is None else label_map_of(label_map, classes)
    return Choices(classes, parameters.get("control"), labels)


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


# The protocol of a machine learning backend.


class BackendRoutes:
    """Predictions for the tasks of a connected project, and the webhook that it gets by itself.

    Label Studio shows its users only the status line of an answer, so that line has the problem.
    """

    def __init__(self, projects: Projects, webhooks: WebhookRoutes) -> None:
        self.projects = projects
        self.webhooks = webhooks

    def routes(self) -> Sequence[Route]:
        each = {
            "/health": ("GET", self.health),
            "/setup": ("POST", self.setup),
            "/predict": ("POST", self.predict),
            "/webhook": ("POST", self.webhook),
        }
        most = {"/predict": MOST_TASKS_BYTES}
        return [
            Route(method, base + path, said(handler), takes_basic=True, most_bytes=most.get(path))
            for base in BASES
            for path, (method, handler) in each.items()
        ]

    async def health(self, request: web.Request) -> web.Response:
        """Whether the project can be served."""
        self._session(request)
        return json(b'{"status":"UP"}')

    async def setup(self, request: web.Request) -> web.Response:
        """Whether the choices of the labeling configuration are the classes of the project.

        The model version is the prefix, as in each prediction.
        """
        session = self._session(request)
        found = await _object(request)
        choices_tag(found.get("schema"), self._choices(request, session))
        return json(dumps({"model_version": session.settings.prefix}))

    async def predict(self, request: web.Request) -> web.Response:
        """Return a prediction for each task, in their order."""
        session = self._session(request)
        found = await _object(request)
        tag = choices_tag(found.get("label_config"), self._choices(request, session))
        tasks = found.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise Problem("'tasks' must be a list of objects")
        session.users.offer(users_of(tasks))
        version, believed = session.settings.prefix, session.view.tasks.belief
        results = [
            {**tag.prediction(*believed(str(task.get("id")))), "model_version": version}
            for task in tasks
        ]
        return json(dumps({"results": results, "model_version": version}))

    async def webhook(self, request: web.Request) -> web.Response:
        """As `POST /hooks/label-studio`; the start of a training is ignored, as others are."""
        session = self._session(request)
        return await self.webhooks.take(request, session, _parameters(request))

    def _session(self, request: web.Request) -> ProjectSession:
        return self.projects.named(request.match_info["project"]).readable

    def _choices(self, request: web.Request, session: ProjectSession) -> Choices:
        return choices_of(_parameters(request), session)


def said(handle: Handler) -> Handler:
    """Return a handler that says in the status line what is wrong, another for each route."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handle(request)
        except Problem as problem:
            found = HttpProblem(422, str(problem))
        except HttpProblem as problem:
            found = problem
        found.reason = str(found).encode("ascii", "replace").decode()
        raise found

    return answer


def _parameters(request: web.Request) -> dict[str, str]:
    """Return the parameters in the address: what choices mean.

    >>> dict(parse_qsl("control=pet&map=Yes:1,No:-1"))
    {'control': 'pet', 'map': 'Yes:1,No:-1'}
    """
    return dict(parse_qsl(request.match_info.get("choices", "")))


async def _object(request: web.Request) -> dict[str, Any]:
    """Return the object in the body, parsed in a thread."""
    body = await read_body(request, JSON, most=MOST_TASKS_BYTES)
    try:
        found = await asyncio.to_thread(loads, body)
    except JSONDecodeError as error:
        raise HttpProblem(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(f"the body must be an object, not {shown(found)}")
    return found
