"""A gateway in this process, and a client that checks every response against the contract."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from typing import Any, NamedTuple

from aiohttp import ClientSession
from orjson import dumps, loads

from sbic.gateway.config import GatewayConfig
from sbic.gateway.server import serving
from sbic.local.java import free_port
from sbic.project.revision import Given
from sbic.project.settings import Settings
from tests.gateway.contract import Contract

TOKEN = "a-token-for-the-tests"


class HttpAnswer(NamedTuple):
    status: int
    json: Any
    headers: dict[str, str]


class GatewayClient:
    """Asks one gateway."""

    def __init__(
        self, url: str, http: ClientSession, projects: Sequence[Settings], contract: Contract
    ) -> None:
        self.contract = contract
        self.url = url
        self.http = http
        self.projects = projects

    async def get(self, path: str, **headers: str) -> HttpAnswer:
        return await self.ask("GET", path, None, headers)

    async def post(self, path: str, record: object, **headers: str) -> HttpAnswer:
        """Post what becomes JSON."""
        return await self.post_bytes(path, dumps(record), "application/json", **headers)

    async def post_bytes(self, path: str, body: bytes, kind: str, **headers: str) -> HttpAnswer:
        return await self.ask("POST", path, body, {"Content-Type": kind, **headers})

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> HttpAnswer:
        async with self.http.request(
            method, self.url + path, data=body and BytesIO(body), headers=headers
        ) as found:
            text = await found.read()
            kind = found.content_type
            body = loads(text) if kind == "application/json" else text
            self.contract.check(method, path, found.status, kind, body)
            return HttpAnswer(found.status, body, dict(found.headers))

    async def until(
        self, path: str, is_so: Callable[[HttpAnswer], bool], deadline: float = 60
    ) -> HttpAnswer:
        """Ask until the answer is so."""
        last = time.monotonic() + deadline
        while not is_so(answer := await self.get(path)):
            assert time.monotonic() < last, answer
            await asyncio.sleep(0.05)
        return answer

    async def until_ready(self) -> None:
        await self.until("/readyz", lambda answer: answer.status == 200)


@asynccontextmanager
async def running_gateway(
    projects: Sequence[Settings], **config: Any
) -> AsyncIterator[GatewayClient]:
    """A gateway that serves these projects and is not necessarily ready yet."""
    given = [Given({"broker": each.broker, "prefix": each.prefix}) for each in projects]
    made = GatewayConfig(port=0, **config)
    token = {"Authorization": f"Bearer {made.tokens[0]}"} if made.tokens else {}
    async with serving(made, given) as url, ClientSession() as http:
        async with http.get(f"{url}/openapi.json", headers=token) as document:
            contract = Contract(await document.json())
        yield GatewayClient(url, http, projects, contract)


@contextmanager
def sbic_gateway(
    environment: Mapping[str, str], *options: str
) -> "Iterator[tuple[str, subprocess.Popen[bytes]]]":
    """`sbic gateway` in a separate process, with these settings only."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    command = [sys.executable, "-m", "sbic", "gateway", "--port", str(port), *options]
    env = {**inherited, **environment}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()
