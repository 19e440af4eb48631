"""A real Label Studio, from PyPI; `make label-studio` installs it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientError, ClientSession, CookieJar

PROGRAM = os.environ.get("LABEL_STUDIO")
START_SECONDS = 600  # it makes its database first
TOKEN = "0123456789abcdef0123456789abcdef01234567"
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="pet" toName="text" choice="multiple">'
    '<Choice value="cat"/><Choice value="dog"/><Choice value="fish"/></Choices></View>'
)

NEEDS_IT = [
    pytest.mark.skipif(not PROGRAM, reason="needs a Label Studio: make label-studio"),
    pytest.mark.timeout(START_SECONDS + 300),
]


@contextmanager
def started(folder: Path, port: int, **environment: str) -> Iterator[None]:
    """A Label Studio of its own, with an owner who has a token."""
    command = [str(PROGRAM), "start", "--no-browser", "--port", str(port)]
    command += ["--internal-host", "127.0.0.1", "--data-dir", str(folder)]
    command += [
        "--username",
        "owner@example.org",
        "--password",
        "not-secret",
        "--user-token",
        TOKEN,
    ]
    settings = {
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **settings, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class RealLabelStudio:
    """The API of a Label Studio."""

    def __init__(self, url: str, http: ClientSession, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.http = http

    async def ask(
        self, method: str, path: str, body: object = None, token: str = TOKEN
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Token {token}"}
        async with self.http.request(
            method, f"{self.url}/api/{path}", json=body, headers=headers
        ) as found:
            return found.status, await found.json(content_type=None)

    async def get(self, path: str, token: str = TOKEN) -> Any:
        status, found = await self.ask("GET", path, token=token)
        assert status == 200, found
        return found

    async def make(self, path: str, body: object, token: str = TOKEN) -> Any:
        status, made = await self.ask("POST", path, body, token)
        assert status in (200, 201), made
        return made

    async def until_up(self) -> None:
        deadline = monotonic() + START_SECONDS
        while True:
            try:
                if (await self.ask("GET", "version"))[0] == 200:
                    return
            except ClientError:
                assert monotonic() < deadline, "Label Studio has not started"
            await asyncio.sleep(0.5)

    async def annotate(self, task: int, user: int, *choices: str, token: str = TOKEN) -> int:
        result = {
            "from_name": "pet",
            "to_name": "text",
            "type": "choices",
            "value": {"choices": list(choices)},
        }
        body = {"result": [result], "completed_by": user}
        return int((await self.make(f"tasks/{task}/annotations/", body, token))["id"])

    async def signed_up(self, name: str) -> "User":
        """A new user, as by an invitation that the owner has sent."""
        link = self.url + (await self.get("invite"))["invite_url"]
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
            async with browser.get(link) as page:
                cross_site = page.cookies["csrftoken"].value
            email = f"{name}@example.org"
            form = {"email": email, "password": "not-secret-1", "csrfmiddlewaretoken": cross_site}
            async with browser.post(link, data=form, headers={"Referer": link}) as page:
                assert page.status == 200, await page.text()
            async with browser.get(f"{self.url}/api/current-user/whoami") as found:
                number = (await found.json())["id"]
            async with browser.get(f"{self.url}/api/current-user/token") as found:
                return User(number, email, (await found.json())["token"])


class User(NamedTuple):
    """An annotator."""

    id: int
    email: str
    token: str
