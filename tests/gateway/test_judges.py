"""The path of docs/judges.md, walked as it stands: from files, and on a running project."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from tests.docs.documents import document
from tests.docs.shell_lines import calls
from tests.gateway.client import running_gateway
from tests.gateway.curl import needs_curl
from tests.gateway.projects import new_project
from tests.instances import instance
from tests.test_schemas import schema

PAGE = document("docs/judges.md")
SBIC = Path(sys.executable).with_name("sbic")


async def run(folder: Path, *program: str, **env: str) -> "subprocess.CompletedProcess[str]":
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
    (making,) = [block.text for block in PAGE.blocks("python")]
    done = await run(tmp_path, sys.executable, "-c", making)
    assert done.returncode == 0, done.stderr
    return tmp_path


async def test_the_report_on_the_verdicts_is_that_of_the_page(folder: Path) -> None:
    (report,) = [
        call for script in PAGE.shell() for call in calls(script) if "--html" in call.arguments
    ]
    done = await run(folder, str(SBIC), *report.arguments, COLUMNS="96")
    assert done.returncode == 0, done.stderr
    (block,) = [each.text for each in PAGE.blocks("text") if "verdicts.jsonl" in each.text]
    assert re.sub(r" +\n", "\n", done.stdout).startswith(block)
    assert "small-turbo" in (folder / "report.html").read_text()


async def test_the_rules_of_the_page_hold(folder: Path) -> None:
    (gate,) = [
        call for script in PAGE.shell() for call in calls(script) if "--require" in call.arguments
    ]
    done = await run(folder, str(SBIC), *gate.arguments)
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
                done = await run(folder, "sh", "-e", "-c", moved, SBIC_BROKER=broker.url)
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
    done = await run(folder, str(SBIC), "report", "--json", *given)
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
