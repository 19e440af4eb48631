"""Writes posteriors as predictions into a project of Label Studio, through its API.

What Label Studio has is compared with what it should have, task by task, and only what differs is
written. So a push may be interrupted and repeated at any time.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from aiohttp import ClientSession, ClientTimeout
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

from sbic.foreign import shown
from sbic.integrations.label_studio import Choices, Problem
from sbic.integrations.label_studio_predictions import ChoicesTag, choices_tag
from sbic.integrations.tools import (
    ANSWER_SECONDS,
    SAME,
    BadTool,
    GoneFromTool,
    Pushed,
    ToolTrouble,
    ask,
    detail_of,
    reading_posteriors,
)
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import SinkOffsets
from sbic.kafka.reader import Reader, keep_last, readable
from sbic.kafka.writer import NotAcknowledged, writing
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.roster import naming
from sbic.wire.posteriors import posterior_parser

PAGE = 200  # tasks
AT_ONCE = 4  # requests
NUMBER = re.compile(rb"[1-9]\d*")
LOOK_SECONDS = 5.0  # between two looks for new tasks
COMPARE_SECONDS = 600.0  # between two comparisons of all tasks
RETRY_SECONDS = 2.0

log = logging.getLogger("sbic")


class LabelStudio:
    """The API of a Label Studio, as far as it is needed.

    It takes both kinds of its tokens: a personal access token is exchanged for one that holds for
    some minutes, a legacy token is sent as it is.
    """

    def __init__(self, url: str, token: str, http: ClientSession) -> None:
        self._api = f"{url.rstrip('/')}/api"
        self._token = token
        self._http = http
        self._is_legacy = token.count(".") != 2
        self._access = ""

    async def project(self, project: int) -> dict[str, Any]:
        """Get a project with its labeling configuration."""
        found: dict[str, Any] = await self._ask("GET", f"/projects/{project}/")
        return found

    async def tasks(self, project: int, page: int) -> list[dict[str, Any]]:
        """Get a page of tasks with their predictions, in the order of their ids."""
        query = f"project={project}&page={page}&page_size={PAGE}&fields=all"
        found: list[dict[str, Any]] = (await self._ask("GET", f"/tasks/?{query}"))["tasks"]
        return found

    async def emails(self) -> dict[int, str]:
        """Get the e-mail address of each user."""
        return {int(user["id"]): str(user["email"]) for user in await self._ask("GET", "/users/")}

    async def create(self, project: int, predictions: Sequence[dict[str, Any]]) -> None:
        """Create predictions, all or none."""
        await self._ask("POST", f"/projects/{project}/import/predictions", predictions)

    async def create_one(self, prediction: dict[str, Any]) -> int:
        """Create a prediction; returns its id."""
        return int((await self._ask("POST", "/predictions/", prediction))["id"])

    async def change(self, prediction: int, fields: dict[str, Any]) -> None:
        """Change a prediction."""
        await self._ask("PATCH", f"/predictions/{prediction}/", fields)

    async def show(self, project: int, version: str) -> None:
        """Make this the version of predictions that the project shows and orders tasks by."""
        await self._ask("PATCH", f"/projects/{project}/", {"model_version": version})

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        if not self._is_legacy and not self._access:
            await self._refresh()
        status, found = await self._send(method, path, body, self._authorization())
        if status == 401 and not self._is_legacy:
            await self._refresh()
            status, found = await self._send(method, path, body, self._authorization())
        if status == 404:
            raise GoneFromTool(f"Label Studio has no {path.partition('?')[0].strip('/')}")
        if status in (401, 403):
            raise BadTool(f"Label Studio refuses the token ({status}): {detail_of(found)}")
        if status >= 400:
            raise ToolTrouble(f"Label Studio answers {status} to {path}: {detail_of(found)}")
        return found

    def _authorization(self) -> str:
        return f"Token {self._token}" if self._is_legacy else f"Bearer {self._access}"

    async def _refresh(self) -> None:
        status, found = await self._send("POST", "/token/refresh", {"refresh": self._token}, None)
        if status >= 400 or not isinstance(found, dict) or "access" not in found:
            raise BadTool(f"Label Studio refuses the token ({status}): {detail_of(found)}")
        self._access = str(found["access"])

    async def _send(
        self, method: str, path: str, body: object, authorization: str | None
    ) -> tuple[int, Any]:
        headers = {} if authorization is None else {"Authorization": authorization}
        url = self._api + path
        return await ask(self._http, "Label Studio", method, url, body=body, headers=headers)


@asynccontextmanager
async def label_studio(url: str, token: str) -> AsyncIterator[LabelStudio]:
    """Make a client of a Label Studio."""
    async with ClientSession(timeout=ClientTimeout(ANSWER_SECONDS)) as http:
        yield LabelStudio(url, token, http)


class PushMetrics:
    """The metrics of a push that follows, in base units."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._clock = clock
        self._written = Counter(
            "sbic_push_predictions",
            "Predictions created or changed.",
            registry=self.registry,
        )
        self._lag = Gauge(
            "sbic_push_lag_records",
            "Posteriors that are not looked at yet.",
            registry=self.registry,
        )
        self._late = Gauge(
            "sbic_push_lag_seconds",
            "How long the predictions have not been what they should be.",
            registry=self.registry,
        )
        self._connected = Gauge(
            "sbic_push_connected",
            "1 while the push is connected to Kafka and to the other tool.",
            registry=self.registry,
        )
        self.lag(0)

    def wrote(self, predictions: int) -> None:
        """Count predictions."""
        self._written.inc(predictions)

    def lag(self, records: int) -> None:
        """Set the lag as of now; without any, predictions are what they should be."""
        self._lag.set(records)
        if not records:
            now = self._clock()
            self._late.set_function(lambda: self._clock() - now)

    def connected(self, is_connected: bool) -> None:
        """Set whether the push is connected."""
        self._connected.set(is_connected)


# What predictions should be, and what they are.


class Held(NamedTuple):
    """A prediction that Label Studio has."""

    id: int
    result: list[Any]
    score: float | None

    def is_as(self, wanted: dict[str, Any]) -> bool:
        """Whether it says the same, as far as anybody can see."""
        return (
            self.result == wanted["result"]
            and self.score is not None
            and abs(self.score - wanted["score"]) < SAME
        )


class Predictions:
    """The predictions of one project of Label Studio; those of other models are left alone."""

    def __init__(
        self, api: LabelStudio, project: int, tag: ChoicesTag, settings: Settings, done: Pushed
    ) -> None:
        self._api = api
        self._project = project
        self._tag = tag
        self._settings = settings
        self._version = settings.prefix
        self._classes = len(settings.crowd_classes)
        self._parse = posterior_parser(settings.crowd_classes)
        self._posteriors: dict[bytes, bytes] = {}
        self._held: dict[int, Held] = {}
        self._named = set[int]()
        self._done = done
        self._slots = asyncio.Semaphore(AT_ONCE)

    def learn(self, records: Sequence[Any]) -> list[int]:
        """Take records of the posteriors topic; the tasks among them that Label Studio has."""
        keep_last(self._posteriors, records)
        numbers = {int(key) for record in records if NUMBER.fullmatch(key := record.key or b"")}
        return sorted(numbers & self._held.keys())

    async def fill(self, *, dry_run: bool = False) -> int:
        """Compare all tasks, and write what differs; returns how many tasks there are."""
        tasks = await self.count()
        annotators = set[int]()
        self._held.clear()
        with progress("Sending predictions", total=tasks) as advance:
            for page in range(1, ceil(tasks / PAGE) + 1):
                found = await self._api.tasks(self._project, page)
                self._done.tasks += len(found)
                for task in found:
                    annotators |= {each for each in task.get("annotators", ()) if type(each) is int}
                missing = self._hold(found)
                self._done.new += len(missing)
                if missing and not dry_run:
                    await self._create(missing)
                    self._hold(await self._api.tasks(self._project, page))  # their ids
                await self.write([task["id"] for task in found], dry_run=dry_run)
                advance(len(found))
        if not dry_run and annotators - self._named:
            await self._name(annotators)
        return tasks

    async def _name(self, annotators: set[int]) -> None:
        """Name workers in the roster after their e-mail addresses, unless they have names."""
        emails = await self._api.emails()
        names = {str(user): emails[user] for user in annotators & emails.keys()}
        try:
            if rows := await naming(self._settings, names):
                async with writing(self._settings, Topics(self._settings).roster) as writer:
                    await writer.send(Topics(self._settings).roster.name, rows)
        except (ClusterError, NotAcknowledged) as error:
            log.warning("annotators have no names in the roster: %s", error)
        else:
            self._named |= annotators

    async def write(self, tasks: Iterable[int], *, dry_run: bool = False) -> None:
        """Write the predictions of these tasks that differ."""
        wanted = {
            task: prediction
            for task in tasks
            if (held := self._held.get(task)) and not held.is_as(prediction := self._wanted(task))
        }
        self._done.changed += len(wanted)
        if not dry_run:
            await asyncio.gather(*(self._change(task, made) for task, made in wanted.items()))

    async def count(self) -> int:
        """How many tasks the project has."""
        return int((await self._api.project(self._project)).get("task_number") or 0)

    async def show(self) -> str | None:
        """Let the project show these predictions, unless it shows others; returns which."""
        shows = (await self._api.project(self._project)).get("model_version")
        if not shows:
            await self._api.show(self._project, self._version)
        return shows if shows and shows != self._version else None

    def _hold(self, tasks: Iterable[dict[str, Any]]) -> list[int]:
        """Take over what tasks have; returns those without a prediction of ours."""
        missing = []
        for task in tasks:
            number, ours = int(task["id"]), None
            for each in task.get("predictions", ()):
                if each.get("model_version") == self._version:
                    ours = Held(int(each["id"]), each.get("result") or [], each.get("score"))
            if ours is None:
                missing.append(number)
            else:
                self._held[number] = ours
        return missing

    def _wanted(self, task: int) -> dict[str, Any]:
        value = self._posteriors.get(b"%d" % task)
        posterior = None if value is None else readable(self._parse, value)
        if posterior is None:
            return self._tag.prediction(None, 1 / self._classes)
        return self._tag.prediction(posterior.prediction, 1 - posterior.doubt)

    async def _create(self, tasks: Sequence[int]) -> None:
        version = {"model_version": self._version}
        made = [{"task": task, **self._wanted(task), **version} for task in tasks]
        await self._api.create(self._project, made)

    async def _change(self, task: int, fields: dict[str, Any]) -> None:
        async with self._slots:
            held = self._held[task]
            try:
                await self._api.change(held.id, fields)
                number = held.id
            except GoneFromTool:  # somebody has deleted it
                mine = {"project": self._project, "model_version": self._version}
                number = await self._api.create_one({"task": task, **fields, **mine})
            self._held[task] = Held(number, fields["result"], fields["score"])


# Once, or for as long as posteriors change.


@dataclass(frozen=True)
class StudioTarget:
    """A project of a Label Studio, and how its choices are read."""

    url: str
    token: str
    project: int
    reading: Choices


async def push(
    settings: Settings, target: StudioTarget, done: Pushed, *, dry_run: bool
) -> str | None:
    """Write what differs now; returns the other version that the project shows, if any.

    Raises `BadTool`, `ToolTrouble` and `ClusterError`. `done` has the progress, even after an
    interruption.
    """
    async with session(settings, target, done) as (predictions, reader, _):
        async for records in reader.to_the_end("Reading posteriors"):
            predictions.learn(records)
        await predictions.fill(dry_run=dry_run)
        return None if dry_run else await predictions.show()


async def follow(
    settings: Settings, target: StudioTarget, done: Pushed, metrics: PushMetrics, name: str
) -> None:
    """Write what differs as posteriors change and tasks come, until cancelled.

    `name` is what status calls this sink.

    What is wrong at the start is raised, as by `push`; later, Kafka and Label Studio may go away
    and come back.
    """
    has_started, said, offsets = False, "", SinkOffsets(name)
    while True:
        before = done.new + done.changed
        looked: dict[TopicPartition, int] = {}
        try:
            async with (
                session(settings, target, done) as (predictions, reader, is_same),
                offsets.committed(settings, looked.copy),
            ):
                async for records in reader.to_the_end("Reading posteriors"):
                    predictions.learn(records)
                tasks = await predictions.fill()
                if shows := await predictions.show():
                    log.warning("%s", other_version(shows, settings.prefix))
                has_started, said = True, ""
                metrics.connected(True)
                log.info("writing predictions to project %d of %s", target.project, target.url)
                looked_at = compared_at = monotonic()
                looked |= await reader.positions()
                async for records in reader.follow():
                    await predictions.write(predictions.learn(records))
                    looked |= await reader.positions()
                    metrics.wrote(done.new + done.changed - before)
                    before = done.new + done.changed
                    if monotonic() < looked_at + LOOK_SECONDS:
                        continue
                    looked_at = monotonic()
                    if not await is_same():
                        break  # the topic was recreated
                    await reader.move_end()
                    metrics.lag(await reader.remaining())
                    is_due = monotonic() >= compared_at + COMPARE_SECONDS
                    if is_due or await predictions.count() != tasks:
                        tasks, compared_at = await predictions.fill(), monotonic()
        except (ClusterError, KafkaError, ToolTrouble, BadTool) as error:
            if not has_started:
                raise
            if str(error) != said:
                log.warning("%s", error)
            said = str(error)
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            metrics.connected(False)


def other_version(shows: str, prefix: str) -> str:
    """Say what to do where the project shows other predictions than these."""
    return (
        f"the project shows predictions of {shown(shows)}: choose {prefix} in its settings, under "
        "Annotation, to show these and to order tasks by them"
    )


@asynccontextmanager
async def session(
    settings: Settings, target: StudioTarget, done: Pushed
) -> AsyncIterator[tuple[Predictions, Reader, Callable[[], Awaitable[bool]]]]:
    """Connect: predictions, a reader of posteriors, and whether their topic is the same."""
    async with (
        label_studio(target.url, target.token) as api,
        reading_posteriors(settings) as (reader, is_same),
    ):
        found = await api.project(target.project)
        try:
            tag = choices_tag(found.get("label_config"), target.reading)
        except Problem as problem:
            raise BadTool(str(problem)) from None
        yield Predictions(api, target.project, tag, settings, done), reader, is_same
