"""What the README shows in Python, Kafka's console tools and kcat, run as it stands, does that."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from ast import literal_eval
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.local.embedded import EmbeddedBroker
from tests.agents import kafka_tools
from tests.agents.kafka import Project, project, until
from tests.agents.kcat import KCAT, needs_kcat
from tests.instances import instance

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
needs_kafka_tools = pytest.mark.skipif(
    not kafka_tools.are_fetched(), reason="Kafka's console tools are not there: run make test"
)


def lines_below(text: str) -> str:
    """The indented lines that follow this text in the README."""
    found = re.search(rf"^{re.escape(text)}\n\n((?:    .*\n)+)", README.read_text(), re.MULTILINE)
    assert found, f"the README has nothing below {text!r}"
    return found[1]


def for_project(lines: str, here: Project) -> str:
    """The same lines for the broker and the prefix of a test."""
    (server,) = here.settings.bootstrap_servers
    assert "127.0.0.1:9092" in lines
    moved = lines.replace("127.0.0.1:9092", server)
    moved = re.sub(r'(Client\("[^"]*")', rf'\1, project="{here.settings.prefix}"', moved)
    return re.sub(r"([ \"])sbic\.(?=[a-z])", rf"\1{here.settings.prefix}.", moved)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the commands that the README names, as far as they are here."""
    if kafka_tools.are_fetched():
        kafka_tools.install(tmp_path)
    if KCAT:
        (tmp_path / "kcat").symlink_to(KCAT)
    return tmp_path


def first_record(lines: str, tools: Path, deadline: float = 60) -> dict[str, Any]:
    """Run the lines in a terminal until the last of them has printed a record; then end them."""
    terminal, inside = os.openpty()  # to anything else kcat writes only when it ends
    shell = subprocess.Popen(
        ["sh", "-e", "-c", lines],
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    printed = b""
    last = time.monotonic() + deadline
    try:
        while not (record := re.search(rb"^\{.*\}(?=\r\n)", printed, re.MULTILINE)):
            assert time.monotonic() < last, f"no record; instead:\n{printed.decode()}"
            assert shell.poll() is None, f"ended without a record:\n{printed.decode()}"
            if select.select([terminal], [], [], 0.1)[0]:
                with suppress(OSError):  # all have ended
                    printed += os.read(terminal, 1 << 16)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        os.close(terminal)
    read: dict[str, Any] = json.loads(record[0])
    return read


@pytest.mark.parametrize("page", ["README.md", "docs/client.md"])
async def test_python_does_as_well(broker: EmbeddedBroker, page: str) -> None:
    """With the client, and without it."""
    here = await project(broker)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.M)
    (block,) = [block for block in blocks if "127.0.0.1:9092" in block]
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        program = [sys.executable, "-c", for_project(block, here)]
        done = await asyncio.to_thread(
            subprocess.run, program, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    posterior = literal_eval(done.stdout)
    assert (posterior["task"], posterior["prediction"], posterior["labels"]) == ("t1", 1, 1)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param("Kafka's console tools:", marks=needs_kafka_tools),
        pytest.param("kcat:", marks=needs_kcat),
    ],
)
async def test_a_label_goes_in_and_its_posterior_comes_out(
    broker: EmbeddedBroker, tools: Path, tool: str
) -> None:
    here = await project(broker)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        lines = for_project(lines_below(tool), here)
        posterior = await asyncio.to_thread(first_record, lines, tools)

        async def is_counted() -> bool:
            return running.metrics()['sbic_labels_total{outcome="counted"}'] == 1

        await until(is_counted)
        metrics = running.metrics()
    assert (posterior["task"], posterior["prediction"], posterior["labels"]) == ("t1", 1, 1)
    assert metrics['sbic_labels_total{outcome="forwarded"}'] == 0  # its key has the right partition


@needs_kcat
async def test_a_worker_who_asks_gets_a_task(broker: EmbeddedBroker, tools: Path) -> None:
    here = await project(broker)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await here.send([("t1", "bob", 1)])
        await here.until_counted(1)
        asking = lines_below("A worker who is free asks, and is answered within milliseconds:")
        assignment = await asyncio.to_thread(first_record, for_project(asking, here), tools)
    assert (assignment["worker"], assignment["task"]) == ("ann", "t1")
