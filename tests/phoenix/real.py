"""A real Arize Phoenix, from PyPI; `make phoenix` installs it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession

from sbic.local.java import free_port

PROGRAM = os.environ.get("PHOENIX")
START_SECONDS = 180

NEEDS_IT = [
    pytest.mark.skipif(not PROGRAM, reason="needs an Arize Phoenix: make phoenix"),
    pytest.mark.timeout(START_SECONDS + 120),
]


@contextmanager
def started(folder: Path, **variables: str) -> Iterator[str]:
    """A Phoenix of its own; its address."""
    port = free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        **variables,
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [str(PROGRAM), "serve"],
            env={**os.environ, **settings},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def span_id(number: int) -> str:
    return f"{number:016x}"


class RealPhoenix:
    """The REST API of a Phoenix."""

    def __init__(self, url: str, http: ClientSession, key: str = "") -> None:
        self.url = url
        self.http = http
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        url = f"{self.url}/v1/{path}"
        async with self.http.request(method, url, json=body, headers=self.headers) as found:
            is_json = found.content_type == "application/json"
            return found.status, await (found.json() if is_json else found.text())

    async def until_up(self) -> None:
        deadline = monotonic() + START_SECONDS
        while True:
            try:
                async with self.http.get(f"{self.url}/arize_phoenix_version") as found:
                    if found.status == 200:
                        return
            except ClientError:
                assert monotonic() < deadline, "Phoenix has not started"
            await asyncio.sleep(0.2)

    async def make_spans(self, project: str, numbers: Iterable[int]) -> None:
        """Create spans, which Phoenix does a moment later, and wait for them."""
        spans = [
            {
                "name": "answer",
                "context": {"trace_id": f"{number:032x}", "span_id": span_id(number)},
                "span_kind": "LLM",
                "start_time": "2026-01-01T12:00:00Z",
                "end_time": "2026-01-01T12:00:01Z",
                "status_code": "OK",
            }
            for number in numbers
        ]
        status, made = await self.ask("POST", f"projects/{project}/spans", {"data": spans})
        assert status == 202, made
        deadline = monotonic() + 60
        while True:
            status, found = await self.ask("GET", f"projects/{project}/spans?limit=1000")
            if status == 200 and len(found["data"]) >= len(spans):
                return
            assert monotonic() < deadline, found
            await asyncio.sleep(0.1)

    async def annotate(
        self, number: int, who: str, label: str | None, *, kind: str = "HUMAN", **more: Any
    ) -> None:
        result = {"label": label, **more.pop("result", {})}
        annotation: dict[str, Any] = {"span_id": span_id(number), "name": "pet", "identifier": who}
        annotation |= {"annotator_kind": kind, "result": result, **more}
        status, made = await self.ask("POST", "span_annotations?sync=true", {"data": [annotation]})
        assert status == 200, made

    async def delete(self, project: str, who: str) -> None:
        """Delete all annotations with this identifier."""
        path = f"projects/{project}/span_annotations?delete_all=true&identifier={who}"
        status, told = await self.ask("DELETE", path)
        assert status == 204, told

    async def annotations(
        self, project: str, numbers: Iterable[int], name: str
    ) -> dict[str, Mapping[str, Any]]:
        """The annotation with this name of each span that has one; none has two."""
        spans = "".join(f"&span_ids={span_id(number)}" for number in numbers)
        path = f"projects/{project}/span_annotations?limit=1000{spans}"
        status, found = await self.ask("GET", f"{path}&include_annotation_names={name}")
        assert status == 200, found
        held = {each["span_id"]: each for each in found["data"]}
        assert len(held) == len(found["data"])
        return held
