"""Annotations of Arize Phoenix as labels, and posteriors as annotations, through its REST API.

A task is a span of a project of Phoenix. What Phoenix has is compared with what it should have, and
only what differs is written, so that a push may be interrupted and repeated at any time.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import ClientSession, ClientTimeout

from sbic.foreign import shown
from sbic.integrations.label_studio import (
    Annotation,
    Choices,
    Problem,
    Slot,
    Tool,
    microseconds,
    text_id,
)
from sbic.integrations.label_studio_import import Unused
from sbic.integrations.label_studio_predictions import SCORE_DIGITS, by_class
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
from sbic.kafka.reader import keep_last, readable
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.wire.posteriors import Posterior, posterior_parser

PHOENIX = Tool("phoenix", reuses_ids=True)  # on SQLite
KINDS = ("HUMAN", "LLM", "CODE")
SPANS = 100  # in one request: each comes with all its attributes
ANNOTATIONS = 1000
OURS = "sbic:"  # how the identifiers of what we write begin
OF_THE_PAGE = "px-app:"  # how those of people who annotate on the page of Phoenix do
SPAN = re.compile(rb"[0-9a-f]{16}")


@dataclass(frozen=True)
class PhoenixProject:
    """A project of a Phoenix; without authentication it needs no key."""

    url: str
    key: str | None
    project: str


class Phoenix:
    """The API of one project of a Phoenix, as far as it is needed."""

    def __init__(self, target: PhoenixProject, http: ClientSession) -> None:
        self._api = f"{target.url.rstrip('/')}/v1"
        self._name = target.project
        self._project = f"projects/{quote(target.project, safe='')}"
        self._headers = {} if target.key is None else {"Authorization": f"Bearer {target.key}"}
        self._http = http

    async def check(self) -> None:
        """Raise `GoneFromTool` unless there is such a project."""
        await self._ask("GET", self._project)

    async def spans(self) -> AsyncIterator[list[str]]:
        """Yield the ids of all spans, page by page."""
        async for spans in self._pages("spans", [("limit", SPANS)]):
            yield [span_of(each) for each in spans]

    async def present(self, spans: Collection[str]) -> set[str]:
        """Return those of these spans that the project has; at most `SPANS`."""
        if not spans:
            return set()
        query = [("limit", 10 * SPANS), *(("span_id", span) for span in spans)]
        return {
            span_of(each) async for found in self._pages("spans", query) for each in found
        } & set(spans)

    async def annotations(
        self, spans: Iterable[str], names: Iterable[str], identifier: str | None = None
    ) -> list[Mapping[str, Any]]:
        """Get the annotations of these spans that have one of these names."""
        query: list[tuple[str, object]] = [("limit", ANNOTATIONS)]
        query += [("span_ids", span) for span in spans]
        query += [("include_annotation_names", name) for name in names]
        query += [] if identifier is None else [("identifier", identifier)]
        return [each async for found in self._pages("span_annotations", query) for each in found]

    async def annotate(self, annotations: Sequence[Mapping[str, Any]]) -> None:
        """Create or replace annotations, all or none."""
        await self._ask("POST", "span_annotations?sync=true", {"data": annotations})

    async def _pages(
        self, what: str, query: Sequence[tuple[str, object]]
    ) -> AsyncIterator[list[Mapping[str, Any]]]:
        cursor: object = None
        while True:
            after = [] if cursor is None else [("cursor", cursor)]
            found = await self._ask("GET", f"{self._project}/{what}?{urlencode([*query, *after])}")
            if not isinstance(found, Mapping) or not isinstance(found.get("data"), list):
                raise BadTool(f"{self._api} is not the API of a Phoenix")
            yield [each for each in found["data"] if isinstance(each, Mapping)]
            cursor = found.get("next_cursor")
            if cursor is None:
                return

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        url = f"{self._api}/{path}"
        status, found = await ask(
            self._http, "Phoenix", method, url, body=body, headers=self._headers
        )
        if status == 404 and method == "GET":
            raise GoneFromTool(f"Phoenix has no {shown(self._name)}: {detail_of(found)}")
        if status in (401, 403):
            way_out = "set SBIC_PHOENIX_TOKEN or SBIC_PHOENIX_TOKEN_FILE to an API key"
            raise BadTool(f"Phoenix refuses ({status}, {detail_of(found)}): {way_out}")
        if status >= 400:
            place = path.partition("?")[0]
            raise ToolTrouble(f"Phoenix answers {status} to {place}: {detail_of(found)}")
        return found


@asynccontextmanager
async def phoenix(target: PhoenixProject) -> AsyncIterator[Phoenix]:
    """Make a client of a project of a Phoenix."""
    async with ClientSession(timeout=ClientTimeout(ANSWER_SECONDS)) as http:
        yield Phoenix(target, http)


def span_of(span: Mapping[str, Any]) -> str:
    """Return the OpenTelemetry id of a span."""
    context = span.get("context")
    found = context.get("span_id") if isinstance(context, Mapping) else None
    if not isinstance(found, str):
        raise BadTool(f"Phoenix has a span without an id: {shown(context)}")
    return found


# Annotations as labels.


@dataclass(frozen=True)
class Fetched:
    """Annotations of a project, as they were a moment ago."""

    found: Sequence[Annotation | Unused]
    tool: Tool = PHOENIX
    has_all: bool = True

    def annotations(self, title: str) -> Iterator[Annotation | Unused]:
        """Yield all annotations, with a progress bar."""
        with progress(title, total=len(self.found)) as advance:
            for each in self.found:
                yield each
                advance()


async def fetch(
    targets: Sequence[PhoenixProject],
    names: Sequence[str],
    kinds: Collection[str],
    choices: Choices,
) -> Fetched:
    """Get the annotations with these names, in the order of their last change.

    Raises `BadTool`, also if there is none, and `ToolTrouble`. What sbic has written is left out.
    """
    given: list[Annotation] = []
    unused: list[Unused] = []
    for target in targets:
        async with phoenix(target) as api:
            with progress(f"Reading {target.project}") as advance:
                async for spans in api.spans():
                    for each in await api.annotations(spans, names) if spans else ():
                        if each.get("annotator_kind") not in kinds or is_ours(each):
                            continue
                        read = _read(each, choices)
                        if isinstance(read, Annotation):
                            given.append(read)
                        else:
                            unused.append(read)
                    advance(len(spans))
    if not given and not unused:
        listed = ", ".join(map(shown, names))
        where = ", ".join(shown(target.project) for target in targets)
        raise BadTool(f"no span of {where} has an annotation {listed} of {', '.join(kinds)}")
    given.sort(key=lambda annotation: (annotation.updated_at, annotation.id))
    return Fetched([*unused, *given])


def is_ours(found: Mapping[str, Any]) -> bool:
    """Whether an annotation is a posterior of sbic, and no label."""
    identifier = found.get("identifier")
    return isinstance(identifier, str) and identifier.startswith(OURS)


def _read(found: Mapping[str, Any], choices: Choices) -> Annotation | Unused:
    number = None
    try:
        number = number_of(found.get("id"))
        slot = Slot(text_id(found.get("span_id"), "span_id"), text_id(worker_of(found), "worker"))
        updated_at = microseconds(found.get("updated_at"))
        return Annotation(number, slot, label_of(found.get("result"), choices), updated_at)
    except Problem as problem:
        name, span = shown(found.get("name")), shown(found.get("span_id"))
        return Unused(number, f"the annotation {name} of the span {span}: {problem}")


def number_of(name: object) -> int:
    """Return the number in a global id of Phoenix.

    >>> number_of("U3BhbkFubm90YXRpb246MTc=")
    17
    """
    number = unpacked(name).rpartition(":")[2]
    if not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise Problem(f"it has no id: {shown(name)}")
    return int(number)


def unpacked(name: object) -> str:
    """Return what a global id of Phoenix says; itself if it is none.

    >>> unpacked("VXNlcjoz"), unpacked("Ann")
    ('User:3', 'Ann')
    """
    if not isinstance(name, str):
        return ""
    try:
        return b64decode(name, validate=True).decode("ascii")
    except (Error, ValueError):
        return name


def worker_of(found: Mapping[str, Any]) -> str:
    """Return who gave an annotation: the identifier, the user, or for an evaluator its name.

    A user is who gave it on the page, or with whose key a program did.

    >>> worker_of({"identifier": "gpt-4o", "annotator_kind": "LLM", "user_id": "VXNlcjoz"})
    'gpt-4o'
    >>> worker_of({"identifier": "px-app:VXNlcjoz", "annotator_kind": "HUMAN"})
    'User:3'
    >>> worker_of({"identifier": "", "annotator_kind": "LLM", "name": "judge"})
    'judge'
    """
    identifier, user = found.get("identifier"), found.get("user_id")
    if isinstance(identifier, str) and identifier:
        if identifier.startswith(OF_THE_PAGE):
            return unpacked(identifier.removeprefix(OF_THE_PAGE))
        return identifier
    if found.get("annotator_kind") == "HUMAN":
        return unpacked(user) if user else "human"
    return str(found.get("name"))


def label_of(result: object, choices: Choices) -> int | str:
    """Return the label in the result of an annotation; one without label and score is a skip."""
    result = result if isinstance(result, Mapping) else {}
    label = result.get("label")
    if isinstance(label, str) and label:
        return choices.label_named(label)
    if result.get("score") is not None:
        raise Problem(f"it has a score, {shown(result['score'])}, and no label")
    return 0


# Posteriors as annotations.


class Posteriors:
    """What the annotations of a project should be."""

    def __init__(self, settings: Settings, name: str, reading: Choices) -> None:
        try:
            self._labels = by_class([*reading.label_map, *reading.classes.names], reading)
        except Problem as problem:
            raise BadTool(str(problem)) from None
        self.name = name
        self.identifier = OURS + settings.prefix
        self._parse = posterior_parser(settings.crowd_classes)
        self._values: dict[bytes, bytes] = {}

    def learn(self, records: Sequence[Any]) -> None:
        """Take records of the posteriors topic."""
        keep_last(self._values, records)

    def spans(self) -> list[str]:
        """List the tasks that may be spans."""
        return sorted(key.decode() for key in self._values if SPAN.fullmatch(key))

    def differs(self, span: str, held: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the annotation that a span should have, unless it has it."""
        posterior = readable(self._parse, self._values[span.encode()])
        if posterior is None:
            return None
        result = self._result(posterior)
        if held is None:
            is_as = posterior.prediction is None and not posterior.labels
        else:
            is_as = says_the_same(held.get("result"), result)
        if is_as:
            return None
        who = {"name": self.name, "annotator_kind": "CODE", "identifier": self.identifier}
        return {"span_id": span, **who, "result": result}

    def _result(self, posterior: Posterior) -> dict[str, Any]:
        label = None if posterior.prediction is None else self._labels[posterior.prediction]
        labels = f"{posterior.labels} label{'s' if posterior.labels != 1 else ''}"
        score = round(1 - posterior.doubt, SCORE_DIGITS)
        return {"label": label, "score": score, "explanation": f"from {labels}"}


def says_the_same(held: object, wanted: Mapping[str, Any]) -> bool:
    """Whether a result says the same, as far as anybody can see."""
    if not isinstance(held, Mapping):
        return False
    score = held.get("score")
    return (
        held.get("label") == wanted["label"]
        and held.get("explanation") == wanted["explanation"]
        and isinstance(score, int | float)
        and abs(score - wanted["score"]) < SAME
    )


async def push(
    settings: Settings,
    target: PhoenixProject,
    name: str,
    reading: Choices,
    done: Pushed,
    *,
    dry_run: bool,
) -> None:
    """Write what differs now; `done` has the progress, even after an interruption.

    Raises `BadTool`, `ToolTrouble` and `ClusterError`.
    """
    posteriors = Posteriors(settings, name, reading)
    async with phoenix(target) as api, reading_posteriors(settings) as (reader, _):
        await api.check()
        async for records in reader.to_the_end("Reading posteriors"):
            posteriors.learn(records)
        spans = posteriors.spans()
        with progress("Sending annotations", total=len(spans)) as advance:
            for start in range(0, len(spans), SPANS):
                portion = spans[start : start + SPANS]
                await _push(api, posteriors, portion, done, dry_run=dry_run)
                advance(len(portion))
    if spans and not done.tasks:
        raise BadTool(f"no task of {settings.prefix} is a span of {shown(target.project)}")


async def _push(
    api: Phoenix, posteriors: Posteriors, spans: Sequence[str], done: Pushed, *, dry_run: bool
) -> None:
    found = await api.annotations(spans, [posteriors.name], posteriors.identifier)
    held = {str(each.get("span_id")): each for each in found}
    there = held.keys() | await api.present([span for span in spans if span not in held])
    wanted = [
        annotation
        for span in spans
        if span in there and (annotation := posteriors.differs(span, held.get(span)))
    ]
    if wanted and not dry_run:
        await api.annotate(wanted)
    done.tasks += len(there)
    changed = sum(annotation["span_id"] in held for annotation in wanted)
    done.changed += changed
    done.new += len(wanted) - changed
