"""What docs/gateway.md shows with curl and docs/client.md in Python does that, run as it stands."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from orjson import loads

from tests.gateway.client import GatewayClient
from tests.gateway.curl import needs_curl

PAGES = Path(__file__).parent.parent.parent / "docs"
DOCS = PAGES / "gateway.md"
HERE = "http://127.0.0.1:8080"


def examples() -> list[str]:
    """The indented blocks of the section that shows how to try it."""
    section = DOCS.read_text().split("## Try it\n")[1].split("\n## ")[0]
    return re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)


def run(lines: str, client: GatewayClient, ending: str) -> list[Any]:
    """The output of the lines, with the address and the tasks of a test."""
    assert HERE in lines
    moved = re.sub(r"\bt(\d)\b", rf"t\g<1>{ending}", lines.replace(HERE, client.url))
    spaced = moved.replace("curl -sS", r"curl -sS -w '\n'")
    done = subprocess.run(["sh", "-e", "-c", spaced], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [loads(line) for line in done.stdout.splitlines()]


@needs_curl
async def test_the_examples_do_what_the_page_says(gateway: GatewayClient) -> None:
    ending = uuid4().hex
    one, several, known, asked = examples()
    (answer,) = await asyncio.to_thread(run, one, gateway, ending)
    assert len(answer["labels"]) == 1
    both = await asyncio.to_thread(run, several, gateway, ending)
    assert [len(answer["labels"]) for answer in both] == [2, 2]
    await gateway.until(
        f"/tasks/t1{ending}", lambda answer: answer.status == 200 and answer.json["labels"] == 3
    )
    task, page = await asyncio.to_thread(run, known, gateway, ending)
    assert {answer["worker"] for answer in task["answers"]} == {"ann", "bob", "eve"}
    assert 1 <= len(page["tasks"]) <= 2
    (given,) = await asyncio.to_thread(run, asked, gateway, ending)
    assert given["assignments"] or given["reason"]


async def test_the_error_that_it_shows_is_the_one_that_comes(gateway: GatewayClient) -> None:
    shown = re.search(r"none is sent\.\n\n```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert shown
    label = {"task": "t1", "worker": "ann", "label": 1}
    answer = await gateway.post("/labels", [label, {**label, "label": 2}])
    assert answer.json == loads(shown[1])


def first_lines(program: str, count: int) -> list[str]:
    """The first lines that a Python program prints; it is ended after them."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        try:
            return [running.stdout.readline() for _ in range(count)]
        finally:
            running.kill()


async def test_the_client_sends_asks_and_watches(gateway: GatewayClient) -> None:
    (block, _) = re.findall(
        r"^```python\n(.*?)^```", (PAGES / "client.md").read_text(), re.DOTALL | re.MULTILINE
    )
    task = uuid4().hex
    program = block.replace(HERE, gateway.url).replace('"t1"', f'"{task}"')
    posterior, assignment, watched = await asyncio.to_thread(first_lines, program, 3)
    assert task in posterior
    assert assignment.startswith("Assignment(")
    assert watched.split()
