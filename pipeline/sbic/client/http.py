"""The transport over the HTTP API of a gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import ClientConnectorError, ClientResponse, ClientSession, ClientTimeout
from aiohttp import ClientError as AiohttpError
from orjson import JSONDecodeError, dumps, loads
from yarl import URL

from sbic.client.transport import (
    Assignment,
    BadLabels,
    ClientError,
    Label,
    LabelProblem,
    NotAllowed,
    Place,
    Posterior,
    Unreachable,
)

MOST_BYTES = 1 << 24  # of one event; a gateway never sends more


class ServerEvent(NamedTuple):
    """The name of an event, and its data."""

    kind: str
    data: bytes


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """Yield the events in a stream of arbitrary chunks; comments are skipped."""
    waiting = bytearray()
    async for chunk in chunks:
        searched = max(len(waiting) - 1, 0)  # a chunk may end between the two newlines
        waiting += chunk
        while (end := waiting.find(b"\n\n", searched)) >= 0:
            if event := _read(bytes(waiting[:end])):
                yield event
            del waiting[: end + 2]
            searched = 0
        if len(waiting) > MOST_BYTES:
            raise ValueError(f"an event has more than {MOST_BYTES} bytes")


def _read(text: bytes) -> ServerEvent | None:
    """Return the event in these lines.

    >>> _read(b"event: status\\ndata: {}"), _read(b": still here")
    (ServerEvent(kind='status', data=b'{}'), None)
    """
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    if b"event" not in fields or b"data" not in fields:
        return None
    return ServerEvent(fields[b"event"].decode(errors="replace"), fields[b"data"])


LABELS_AT_ONCE = 500
BYTES_AT_ONCE = 900_000  # the gateway accepts 1 MB
WAIT_SECONDS = 0.2  # before a retry
SILENT_SECONDS = 45  # three heartbeats of the gateway's events


class HttpTransport:
    """Sends requests to a gateway over persistent connections."""

    def __init__(
        self, address: str, token: str | None, project: str | None, timeout: float
    ) -> None:
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._query = f"?project={quote(project, safe='')}" if project else ""
        self._timeout = timeout
        self._opened: ClientSession | None = None

    async def send(self, labels: Sequence[Label]) -> list[Place]:
        """POST /labels, in portions; a portion without an answer is sent again."""
        places: list[Place] = []
        for portion in portions(labels):
            try:
                answer = await self._ask("POST", "/labels", portion, again=True)
            except BadLabels as bad:
                before = len(places)
                shifted = [LabelProblem(before + each.index, each.reason) for each in bad.problems]
                raise BadLabels(shifted) from None
            places += [Place(place["partition"], place["offset"]) for place in answer["labels"]]
        return places

    async def next_task(self, worker: str) -> Assignment:
        """POST /next."""
        answer = await self._ask("POST", "/next", dumps({"worker": worker, "count": 1}))
        if not (given := [each for each in answer["assignments"] if each["task"] is not None]):
            return Assignment(None, answer["reason"])
        first = given[0]
        return Assignment(first["task"], None, first.get("id"), first.get("expires_at"))

    async def posterior(self, task: str) -> Posterior | None:
        """GET /tasks/{task}."""
        path = f"/tasks/{quote(task, safe='')}"
        found: Posterior | None = await self._ask("GET", path, again=True, missing=True)
        return found

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[Posterior]]:
        """GET /events; retries while the gateway is not ready."""
        silent = ClientTimeout(total=None, sock_connect=self._timeout, sock_read=SILENT_SECONDS)
        async with await self._open("GET", "/events", again=True, stream=silent) as response:
            yield self._posteriors(response)

    async def close(self) -> None:
        """Close all connections."""
        if self._opened:
            await self._opened.close()

    def _session(self) -> ClientSession:
        if self._opened is None:  # created here, since it belongs to the running loop
            self._opened = ClientSession(headers=self._headers)
        return self._opened

    def _url(self, path: str) -> URL:
        return URL(f"{self._address}{path}{self._query}", encoded=True)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        again: bool = False,
        missing: bool = False,
    ) -> Any:
        """Return the JSON answer; with `missing`, None if there is no such task."""
        async with await self._open(method, path, body, again=again, missing=missing) as response:
            if response.status == 404:
                return None
            try:
                return loads(await response.read())
            except JSONDecodeError as error:
                raise self._unreachable(error) from None

    async def _open(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        again: bool,
        missing: bool = False,
        stream: ClientTimeout | None = None,
    ) -> ClientResponse:
        """Return a successful response, read whole unless `stream` gives the timeout of one.

        Retries until the timeout if the gateway is busy or has no Kafka; with `again`, also if the
        request may have been processed without an answer.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        while True:
            try:
                response = await self._session().request(
                    method,
                    self._url(path),
                    data=body,
                    headers={"Content-Type": "application/json"} if body else None,
                    allow_redirects=False,
                    timeout=stream or ClientTimeout(total=self._timeout),
                )
                if not stream or response.status != 200:
                    await response.read()
            except (AiohttpError, TimeoutError) as error:
                problem: ClientError = self._unreachable(error)
                if not again and not isinstance(error, ClientConnectorError):
                    raise problem from None
            else:
                if response.status == 200:
                    return response
                problem = await self._refusal(response)
                if response.status == 404 and missing and "no such task" in str(problem):
                    return response
                if response.status not in (429, 503):
                    raise problem
            if asyncio.get_running_loop().time() + WAIT_SECONDS > deadline:
                raise problem
            await asyncio.sleep(WAIT_SECONDS)

    async def _refusal(self, response: ClientResponse) -> ClientError:
        """Return the gateway's error answer as an exception."""
        try:
            said = loads(await response.read())
            if (problems := said.get("problems")) and response.url.path.endswith("/labels"):
                return BadLabels([LabelProblem(each["index"], each["reason"]) for each in problems])
            text = str(said["error"])
        except (JSONDecodeError, AttributeError, KeyError, TypeError):
            text = f"HTTP status {response.status}, not from an sbic gateway"
        kind = {401: NotAllowed, 403: NotAllowed, 503: Unreachable}.get(
            response.status, ClientError
        )
        return kind(f"{self._address}: {text}")

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = str(error) or type(error).__name__
        return Unreachable(f"no gateway answers at {self._address} ({reason}); is it running?")

    async def _posteriors(self, response: ClientResponse) -> AsyncIterator[Posterior]:
        try:
            async for event in events(response.content.iter_any()):
                if event.kind == "posteriors":
                    for posterior in loads(event.data):
                        yield posterior
        except (AiohttpError, TimeoutError, ValueError) as error:
            raise self._unreachable(error) from None
        raise Unreachable(f"the gateway at {self._address} has closed the stream of events")


def portions(labels: Sequence[Label]) -> Iterator[bytes]:
    """Yield the labels as JSON arrays of a size that the gateway accepts.

    >>> list(portions([{"task": "t1", "worker": "ann", "label": 1}]))
    [b'[{"task":"t1","worker":"ann","label":1}]']
    """
    portion: list[bytes] = []
    size = 0
    for label in labels:
        encoded = dumps(dict(label))
        if portion and (len(portion) == LABELS_AT_ONCE or size + len(encoded) > BYTES_AT_ONCE):
            yield b"[" + b",".join(portion) + b"]"
            portion, size = [], 0
        portion.append(encoded)
        size += len(encoded) + 1
    if portion:
        yield b"[" + b",".join(portion) + b"]"
