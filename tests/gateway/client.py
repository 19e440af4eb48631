"""A gateway in this process, and a client that checks every response against the contract."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from shutil import which
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from aiohttp import ClientSession
from jsonschema import Draft202012Validator
from orjson import dumps, loads

from sbic.gateway.config import GatewayConfig
from sbic.gateway.server import serving
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings

TOKEN = "a-token-for-the-tests"


class HttpAnswer(NamedTuple):
    status: int
    json: Any
    headers: dict[str, str]


class GatewayClient:
    """Asks one gateway."""

    def __init__(
        self, url: str, http: ClientSession, projects: Sequence[Settings], contract: "Contract"
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


# Checks real responses against `/openapi.json`.


class Contract:
    """The document of a gateway."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.paths = {
            re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))): methods
            for path, methods in document["paths"].items()
        }

    def check(self, method: str, url: str, status: int, kind: str, body: object) -> None:
        """The answer is one that the document names; 404 or 405 where it has no such path."""
        path = urlsplit(url).path
        found = [methods for pattern, methods in self.paths.items() if pattern.fullmatch(path)]
        operation = found[0].get(method.lower()) if found else None
        if operation is None:
            assert status in (204, 401, 403, 404, 405), f"{method} {path} answers {status}"
            return
        response = operation["responses"][str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].split("/")[-1]]
        assert kind in response["content"], f"{method} {path} answers {kind}"
        if kind == "application/json":
            schema = response["content"][kind]["schema"]
            whole = {**schema, "components": self.document["components"]}
            Draft202012Validator(whole).validate(body)


# Checks real responses against `/openapi.json`.


needs_curl = pytest.mark.skipif(which("curl") is None, reason="curl is not installed")

# Projects for a gateway to serve.


async def new_project(broker: EmbeddedBroker, **settings: Any) -> Settings:
    """Create a new project: its topics, with no records."""
    prefix = f"gateway-{uuid4().hex[:8]}"
    made = Settings(broker=broker.url, prefix=prefix, partitions=3, **settings)
    return (await open_project(Given.of(made))).settings
