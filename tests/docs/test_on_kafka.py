"""What the documents show in Python, Kafka's console tools and kcat does that on a real Kafka."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sbic.client import Client
from tests.agents import kafka_tools
from tests.agents.kcat import KCAT, needs_kcat
from tests.docs.conftest import DocumentedProject
from tests.docs.documents import document

needs_kafka_tools = pytest.mark.skipif(
    not kafka_tools.are_fetched(), reason="Kafka's console tools are not there: run make test"
)


def adapted(text: str, shown: DocumentedProject, task: str) -> str:
    """The same text for the broker and the project of the tests, and a task that nobody knows."""
    (server,) = shown.settings.bootstrap_servers
    assert "127.0.0.1:9092" in text
    moved = text.replace("127.0.0.1:9092", server).replace('"t1"', f'"{task}"')
    moved = re.sub(r'(Client\("[^"]*")', rf'\1, project="{shown.settings.prefix}"', moved)
    return re.sub(r"([ \"])sbic\.(?=[a-z])", rf"\1{shown.settings.prefix}.", moved)


def block(page: str, language: str, *words: str) -> str:
    """The one block of a page that has these words."""
    found = document(page).blocks(language)
    (block,) = [each.text for each in found if all(word in each.text for word in words)]
    return block


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the commands that the documents use, as far as they are installed."""
    if kafka_tools.are_fetched():
        kafka_tools.install(tmp_path)
    if KCAT:
        (tmp_path / "kcat").symlink_to(KCAT)
    return tmp_path


@contextmanager
def terminal_of(lines: str, tools: Path) -> Iterator[int]:
    """Run the lines in a terminal, and end them afterwards."""
    terminal, inside = os.openpty()  # to anything else kcat writes only when it ends
    shell = subprocess.Popen(
        ["sh", "-e", "-c", lines],
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    try:
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        os.close(terminal)


def printed_record(lines: str, tools: Path, words: str, deadline: float = 60) -> dict[str, Any]:
    """The first record with these words that the lines print."""
    wanted = re.compile(rb"^\{.*" + re.escape(words.encode()) + rb".*\}(?=\r\n)", re.MULTILINE)
    printed = b""
    last = time.monotonic() + deadline
    with terminal_of(lines, tools) as terminal:
        while not (record := wanted.search(printed)):
            assert time.monotonic() < last, f"no such record; instead:\n{printed.decode()}"
            if select.select([terminal], [], [], 0.1)[0]:
                with suppress(OSError):  # all have ended
                    printed += os.read(terminal, 1 << 16)
    read: dict[str, Any] = json.loads(record[0])
    return read


@pytest.mark.parametrize("page", ["README.md", "docs/client.md"])
def test_python_sends_a_label_and_reads_its_posterior(signs: DocumentedProject, page: str) -> None:
    """With the client, and with aiokafka alone."""
    task = uuid4().hex
    program = adapted(block(page, "python", "127.0.0.1:9092"), signs, task)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    posterior = literal_eval(done.stdout)
    assert (posterior["task"], posterior["prediction"], posterior["labels"]) == (task, 1, 1)


@pytest.mark.parametrize(
    ("page", "tool"),
    [
        pytest.param("README.md", "kcat -P", marks=needs_kcat),
        pytest.param("schemas/README.md", "kcat -P", marks=needs_kcat),
        pytest.param("docs/guide.md", "kafka-console-producer.sh", marks=needs_kafka_tools),
    ],
)
def test_a_label_goes_in_and_its_posterior_comes_out(
    signs: DocumentedProject, tools: Path, page: str, tool: str
) -> None:
    task = uuid4().hex
    (lines,) = [text for text in document(page).shell() if tool in text and "sbic.labels" in text]
    before = signs.instance.metrics()['sbic_labels_total{outcome="forwarded"}']
    posterior = printed_record(adapted(lines, signs, task), tools, task)
    after = signs.instance.metrics()['sbic_labels_total{outcome="forwarded"}']
    assert (posterior["task"], posterior["prediction"], posterior["labels"]) == (task, 1, 1)
    assert after == before  # its key has the right partition


@needs_kcat
def test_a_worker_who_asks_gets_a_task(signs: DocumentedProject, tools: Path) -> None:
    with Client(signs.settings.broker, project=signs.settings.prefix) as crowd:
        sent = crowd.send({"task": "open", "worker": "joe", "label": 1})
        crowd.posterior("open", counting=sent)
    asking = adapted(block("docs/guide.md", "sh", "kcat -P", "sbic.requests"), signs, "")
    assignment = printed_record(asking, tools, '"policy"')
    assert assignment["worker"] == "ann"
    assert assignment["task"]
