"""What docs/gateway.md shows with curl and docs/client.md in Python does that, run as it stands."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator
from orjson import loads

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from tests.docs.documents import document
from tests.docs.shell_lines import calls
from tests.gateway.client import GatewayClient, needs_curl, new_project, running_gateway
from tests.instances import instance
from tests.test_schemas import schema

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


# The path of docs/judges.md, walked as it stands: from files, and on a running project.


PAGE = document("docs/judges.md")
SBIC = Path(sys.executable).with_name("sbic")


async def run_judges(folder: Path, *program: str, **env: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    return await asyncio.to_thread(
        subprocess.run,
        program,
        cwd=folder,
        env=inherited | env,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with the verdicts and the gold that the page makes."""
    (making,) = [each.text for each in PAGE.blocks("python") if "verdicts.jsonl" in each.text]
    done = await run_judges(tmp_path, sys.executable, "-c", making)
    assert done.returncode == 0, done.stderr
    return tmp_path


async def test_the_report_on_the_verdicts_is_that_of_the_page(folder: Path) -> None:
    (report,) = [
        call for script in PAGE.shell() for call in calls(script) if "--html" in call.arguments
    ]
    done = await run_judges(folder, str(SBIC), *report.arguments, COLUMNS="96")
    assert done.returncode == 0, done.stderr
    (block,) = [each.text for each in PAGE.blocks("text") if "verdicts.jsonl" in each.text]
    assert re.sub(r" +\n", "\n", done.stdout).startswith(block)
    assert "small-turbo" in (folder / "report.html").read_text()


async def test_the_rules_of_the_page_hold(folder: Path) -> None:
    (gate,) = [
        call for script in PAGE.shell() for call in calls(script) if "--require" in call.arguments
    ]
    done = await run_judges(folder, str(SBIC), *gate.arguments)
    assert done.returncode == 0, done.stderr
    assert (folder / "report.xml").read_text().count("<testcase") == 3


@needs_curl
async def test_a_running_project_comes_to_the_figures_of_the_file(
    broker: EmbeddedBroker, folder: Path
) -> None:
    judges = await new_project(broker, classes="right,wrong")
    with instance(broker.url, judges.prefix) as running:
        await asyncio.to_thread(running.wait_ready)
        async with running_gateway([judges]) as gateway:
            await gateway.until_ready()
            for line in (line for script in PAGE.shell() for line in script.splitlines()):
                moved = line.replace("http://127.0.0.1:8080", gateway.url)
                moved = moved.replace("--prefix judges", f"--prefix {judges.prefix}")
                if line.startswith("sbic tasks"):
                    moved = f"{SBIC.parent}/{moved}"
                elif not (line.startswith("curl") and "labels" in line):
                    continue
                done = await run_judges(folder, "sh", "-e", "-c", moved, SBIC_BROKER=broker.url)
                assert done.returncode == 0, done.stderr
            await gateway.until(
                "/status",
                lambda answer: (
                    answer.json["labels"]["counted"] == 1800
                    and answer.json["settled"]["is_settled"] is True
                ),
            )
            served = await gateway.until("/report", lambda answer: answer.status == 200)
            alone = await gateway.get("/report?gold_only=true")
        live = await printed(folder, judges)
    file = await printed(folder, None)
    Draft202012Validator(schema("report")).validate(live)
    assert rounded(served.json) == rounded(live)
    assert alone.json["gold_only"] is True
    assert alone.json["wrong"] is None
    assert live["next"]["tasks"] == file["next"]["tasks"]
    # only in the stream is anything known of time: whether a judge drifts
    timeless = [line for line in live["findings"] if "answers otherwise than before" not in line]
    assert [said(line) for line in timeless] == [said(line) for line in file["findings"]]
    judged = [{each["worker"]: each for each in found["judges"]} for found in (live, file)]
    for name, judge in judged[0].items():
        other = judged[1][name]
        assert judge["gold"] == other["gold"]
        accuracy = judge["posterior"]["accuracy"]
        assert accuracy == pytest.approx(other["posterior"]["accuracy"], abs=1e-3)
    for field in ("share", "expected"):
        assert live["wrong"][field] == pytest.approx(file["wrong"][field], rel=1e-2)
    assert live["jury"] == pytest.approx(file["jury"], abs=1e-3)


async def printed(folder: Path, project: Settings | None) -> dict[str, Any]:
    """What `sbic report --json` prints, of the project or of the files."""
    files = ["verdicts.jsonl", "--truth", "gold.jsonl"]
    given = files if project is None else ["--broker", project.broker, "--prefix", project.prefix]
    done = await run_judges(folder, str(SBIC), "report", "--json", *given)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rounded(found: Any) -> Any:
    """The same with numbers rounded: sums depend on the order in which topics are read."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return round(found, 9) if isinstance(found, float) else found


def said(sentence: str) -> str:
    """A sentence without its figures."""
    return re.sub(r"[\d.,]+", "", sentence)
