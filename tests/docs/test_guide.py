"""The commands of the guide, run one after the other on a real Kafka, do what it says."""

import csv
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from sbic.commands.main import sbic
from tests.docs.conftest import DocumentedProject
from tests.docs.documents import document
from tests.docs.shell_lines import Call, calls

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
