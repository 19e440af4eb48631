"""What the documents show in Python, Kafka's console tools and kcat does that on a real Kafka."""

import csv
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
from json import JSONDecoder
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from orjson import loads

from sbic.client import Client
from sbic.commands.main import sbic
from tests.agents import kafka_tools
from tests.agents.kafka import KCAT, needs_kcat
from tests.docs.conftest import DocumentedProject
from tests.docs.documents import DOCUMENTS, ROOT, Document, document
from tests.docs.shell_lines import Call, calls

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


# The commands of the guide, run one after the other on a real Kafka, do what it says.


GUIDE = document("docs/guide.md")
KEEP_THEIR_TERMINAL = {"up", "run", "watch"}
# What takes seconds, and has tests elsewhere.
TAKE_LONG = {
    "simulate",
    "experiment",
    "recount",
    "--recount",
    "classes=owl,wren",
    "reset",
    "delete",
}
MORE_FILES = {
    "batch.csv": "HITId,WorkerId,Answer\nt1,ann,yes\nt1,bob,no\n",
    "truth.csv": "task,truth\nphoto-1,1\n",
    "gold.csv": "task,truth\nphoto-1,cat\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the guide shows, and others that it names."""
    shown = {block.title: block.text for block in GUIDE.blocks("csv")}
    for name, text in {**shown, **MORE_FILES}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def prefixes(signs: DocumentedProject, named: DocumentedProject) -> dict[str, str]:
    """The projects of the guide by the names that it gives them."""
    return {
        "sbic": signs.settings.prefix,
        "pets": named.settings.prefix,
        "birds": f"birds-{uuid4().hex[:8]}",
    }


@pytest.fixture
def _signals() -> Iterator[None]:
    """Commands set handlers of signals for their own process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def guide_calls() -> list[Call]:
    found = [call for script in GUIDE.shell() for call in calls(script)]
    return [call for call in found if not (KEEP_THEIR_TERMINAL | TAKE_LONG) & set(call.arguments)]


def run(call: Call, broker: str, prefixes: dict[str, str]) -> str:
    """What a command prints."""
    names = {**prefixes, "100": "2"}  # fewer shuffles
    arguments = [names.get(argument, argument) for argument in call.arguments]
    env: dict[str, str | None] = {name: None for name in os.environ if name[:5] == "SBIC_"}
    env |= {"SBIC_BROKER": broker, "SBIC_PREFIX": prefixes["sbic"], **call.env}
    done = CliRunner().invoke(sbic, arguments, input="y\n", env=env)
    assert done.exit_code == 0, f"{call}: {done.output}{done.exception!r}"
    return done.output


@pytest.mark.usefixtures("_signals")
def test_the_commands_do_what_the_guide_says(
    folder: Path, signs: DocumentedProject, prefixes: dict[str, str]
) -> None:
    printed = {str(call): run(call, signs.settings.broker, prefixes) for call in guide_calls()}
    assert len(printed) > 15
    with (folder / "posteriors.csv").open() as file:
        posteriors = {row["task"]: row for row in csv.DictReader(file)}
    assert posteriors["photo-2"]["prediction"] == "-1"
    assert "labels sent: 11" in printed["sbic replay labels.csv --wait"]
    assert "1 with a prior, 1 gold" in printed["sbic tasks import tasks.csv"]
    assert "tasks closed: 2" in printed["sbic tasks close photo-3 photo-4"]
    assert "expected to be wrong" in printed["sbic status"]
    assert prefixes["birds"] in printed["sbic project list"]
    assert "photo-2,dog" in (folder / "estimates.csv").read_text()


# Every JSON in the documents is valid: records against their schemas, answers of HTTP as such.


HTTP = {"labels", "error", "problems"}  # what the gateway answers: see tests/gateway/test_docs.py


def values(text: str) -> Iterator[Any]:
    """The values that follow each other in a block."""
    text = text.strip()
    while text:
        value, end = JSONDecoder().raw_decode(text)
        yield value
        text = text[end:].lstrip()


def kind_of(record: dict[str, Any]) -> str:
    """The record that has such fields."""
    if "payload" in record:
        return "flat"
    if {"log_odds", "probabilities"} & record.keys():
        return "posterior"
    if "accuracy" in record:
        return "worker"
    if "id" in record:
        return "assignment"
    if "label" in record:
        return "label"
    return "task" if "task" in record else "request"


WITH_JSON = [document for document in DOCUMENTS if document.blocks("json")]


@pytest.mark.parametrize("document", WITH_JSON, ids=repr)
def test_records_are_valid(document: Document) -> None:
    for block in document.blocks("json"):
        for record in values(block.text):
            if not record.keys() <= HTTP and "connector.class" not in record:
                path = ROOT / "schemas" / f"{kind_of(record)}.schema.json"
                Draft202012Validator(loads(path.read_bytes())).validate(record)


# Python in the documents that needs no Kafka runs as it stands.


ELSEWHERE = ("127.0.0.1", "verdicts.jsonl", "inspect_ai")
"""What test_on_kafka.py, the tests of the gateway and those of `make integrations` run."""
PURE = [
    pytest.param(block.text, id=f"{document}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(document.blocks("python"))
    if not any(word in block.text for word in ELSEWHERE)
]


@pytest.mark.parametrize("program", PURE)
def test_it_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "a document", "exec"), {})


def test_there_is_some() -> None:
    assert PURE
