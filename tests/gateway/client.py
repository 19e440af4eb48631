"""A gateway that runs in this process, and a client of it that believes no answer unchecked."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, NamedTuple

from aiohttp import ClientSession
from orjson import dumps, loads

from pipeline.gateway.config import GatewayConfig
from pipeline.gateway.server import serving
from pipeline.project.given import Given
from pipeline.settings import Settings

TOKEN = "a-token-for-the-tests"


class Answer(NamedTuple):
    status: int
    json: Any
    headers: dict[str, str]


class Client:
    """Asks one gateway."""

    def __init__(self, url: str, http: ClientSession, projects: Sequence[Settings]) -> None:
        self.url = url
        self.http = http
        self.projects = projects

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, None, headers)

    async def post(self, path: str, record: object, **headers: str) -> Answer:
        """Post what becomes JSON."""
        return await self.post_bytes(path, dumps(record), "application/json", **headers)

    async def post_bytes(self, path: str, body: bytes, kind: str, **headers: str) -> Answer:
        return await self.ask("POST", path, body, {"Content-Type": kind, **headers})

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        async with self.http.request(
            method, self.url + path, data=body and BytesIO(body), headers=headers
        ) as found:
            text = await found.read()
            is_json = found.content_type == "application/json"
            return Answer(found.status, loads(text) if is_json else text, dict(found.headers))

    async def until(
        self, path: str, is_so: Callable[[Answer], bool], deadline: float = 60
    ) -> Answer:
        """Ask until the answer is so."""
        last = time.monotonic() + deadline
        while not is_so(answer := await self.get(path)):
            assert time.monotonic() < last, answer
            await asyncio.sleep(0.05)
        return answer

    async def until_ready(self) -> None:
        await self.until("/readyz", lambda answer: answer.status == 200)


@asynccontextmanager
async def running_gateway(projects: Sequence[Settings], **config: Any) -> AsyncIterator[Client]:
    """A gateway that serves these projects; it may not be ready yet."""
    given = [Given.of(settings) for settings in projects]
    async with serving(GatewayConfig(port=0, **config), given) as url, ClientSession() as http:
        yield Client(url, http, projects)
