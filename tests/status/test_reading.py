"""`sbic status`: what the topics and the group say, on one screen and as JSON."""

from itertools import chain
from time import monotonic, sleep
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from orjson import loads
from rich.console import Console

from sbic.commands.status import StatusScreen
from sbic.project.settings import Settings
from sbic.status.contents import Letter
from sbic.status.report import Activity, Flow, Member, Settledness, Summary
from sbic.wire.dead_letters import LetterHeaders, Origin
from tests.instances import instance
from tests.projects import PARTITIONS, sbic
from tests.records.made import posterior_of
from tests.test_schemas import schema

LABELS = "".join(
    f"t{task},w{worker},{'cat' if (task + worker) % 5 else 'dog'}\n"
    for task in range(30)
    for worker in range(8)
)


def status(settings: Settings, *arguments: str) -> dict[str, Any]:
    ended = sbic(settings, "status", "--json", "--classes", settings.classes, *arguments)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = loads(ended.stdout)
    Draft202012Validator(schema("status")).validate(found)
    return found


def test_two_instances_settle_and_the_status_knows(pets: Settings) -> None:
    assert status(pets)["settled"] == {
        "is_settled": None,
        "why": "no instance is running",
        "tasks_due": None,
    }
    env = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    with (
        instance(pets.broker, pets.prefix, **env) as one,
        instance(pets.broker, pets.prefix, **env) as two,
    ):
        one.wait_ready()
        two.wait_ready()
        options = ["--classes", pets.classes, "--wait", "--timeout", "60"]
        text = f"task,worker,label\n{LABELS}t0,w0,dog\n"
        ended = sbic(pets, "replay", "-", *options, stdin=text)
        assert ended.returncode == 0, ended.stderr
        deadline = monotonic() + 30
        while not (found := status(pets, "--budget", "300"))["settled"]["is_settled"]:
            assert monotonic() < deadline, found["settled"]
            sleep(0.2)
    assert found["labels"]["counted"] == 240
    assert found["labels"]["in_topic"] == 241
    assert found["budget"]["left"] == 60
    assert found["tasks"]["open"] == 30
    members = found["instances"]["members"]
    owned = [member["partitions"] for member in members]
    assert sorted(chain.from_iterable(owned)) == list(range(PARTITIONS))
    assert len(members) == 2
    assert found["instances"]["lag"] == dict.fromkeys(("labels", "votes", "tasks", "requests"), 0)


def test_a_budget_that_nothing_will_spend_has_no_forecast() -> None:
    summary = Summary("birds", {}, budget=100, activity=Activity(flow=Flow(12_345, 120)))
    assert summary.budget_seconds is None  # no task is open
    summary.tasks.add(posterior_of("t1", 0.1, 40, {}, 0))
    assert summary.budget_seconds == 30


@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_of_it_fits_the_screen(width: int) -> None:
    activity = Activity(
        flow=Flow(12_345, 120),
        settled=Settledness(False, "7 tasks are due to be recomputed", 7),
        members=[Member("id", "192.168.100.100", [0, 1, 2, 5], 17)],
    )
    settings = {"classes": "-1,1", "alpha": 2.0, "budget": 100}
    summary = Summary("birds", settings, budget=100, activity=activity)
    for number in range(30):
        summary.tasks.add(posterior_of(f"a-rather-long-task-{'x' * 60}", 0.1, number, {}, 0))
        name = f"worker-{number}-{'y' * 60}"
        known = {"worker": name, "accuracy": 0.5, "interval": [0.25, 0.75], "labels": 1_234}
        summary.workers.add(known)
    for number, reason in enumerate(["bad-label"] * 3 + ["not-json"]):
        said = LetterHeaders(Origin("birds.labels", 0, number), reason, "", False, False)
        summary.letters.add(Letter(0, said, 0, None, None))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(StatusScreen(summary))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for expected in (
        "29 counted, 12,345 in the topic; 2.0 a second",
        "no: 7 tasks are due to be recomputed",
        "71 of 100 labels left, spent in 36 seconds",
        "4 (bad-label 3, not-json 1)",
        "partitions 0-2, 5, lag 17",
        "0.250 to 0.750",
    ):
        assert expected in words


def test_no_name_reaches_the_terminal_as_an_escape_sequence() -> None:
    evil = "\x1b[2J\u202e"
    summary = Summary("birds", {"classes": evil}, budget=None, activity=Activity())
    summary.tasks.add(posterior_of(f"task{evil}", 0.1, 2, {}, 0))
    known = {"worker": f"worker{evil}", "accuracy": 0.5, "interval": [0.25, 0.75], "labels": 1}
    summary.workers.add(known)
    said = LetterHeaders(Origin("birds.labels", 0, 1), f"reason{evil}", "", False, False)
    summary.letters.add(Letter(0, said, 0, None, None))
    console = Console(width=120)
    with console.capture() as capture:
        console.print(StatusScreen(summary))
    assert "\x1b[2J" not in capture.get()
    assert "\u202e" not in capture.get()
    for name in ("task", "worker", "reason"):
        assert f"{name}\\x1b[2J" in capture.get()
