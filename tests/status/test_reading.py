"""`sbic status`: what the topics and the group say, on one screen and as JSON."""

import asyncio
from collections.abc import Callable
from itertools import chain
from random import Random
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from jsonschema import Draft202012Validator
from orjson import dumps, loads
from rich.console import Console

from sbic.classes import SIGNS, Classes
from sbic.client import Posterior
from sbic.commands.status import StatusScreen
from sbic.engine.engine import Engine
from sbic.engine.labels import Floats
from sbic.engine.outside import Moments
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import Letter
from sbic.status.report import Activity, Flow, Member, Settledness, Summary, findings_of
from sbic.status.tallies import TaskTally
from sbic.wire.dead_letters import LetterHeaders, Origin
from sbic.wire.estimates import CANDIDATE_COLUMNS, CANDIDATE_ROWS, Findings
from tests.instances import instance
from tests.projects import PARTITIONS, commit_as_sink, sbic, write
from tests.records.made import named_posterior_of, parsed, posterior_of
from tests.test_schemas import schema

LABELS = "".join(
    f"t{task},w{worker},{'cat' if (task + worker) % 5 else 'dog'}\n"
    for task in range(30)
    for worker in range(8)
)


def status(settings: Settings, *arguments: str) -> dict[str, Any]:
    ended = sbic(settings, "status", "--json", *arguments)
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
    changed = sbic(pets, "project", "set", "budget=300")
    assert changed.returncode == 0, changed.stderr
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
        while not (found := status(pets))["settled"]["is_settled"]:
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
    assert found["instances"]["lag"] == dict.fromkeys(
        ("labels", "votes", "tasks", "roster", "requests"), 0
    )


TOGETHER = [  # three of four workers say cat where it is a dog
    (f"t{task}", f"w{worker}", "dog" if (task % 4 < 2 if worker < 6 else task % 2) else "cat")
    for task in range(400)
    for worker in range(9)
]


def test_gold_that_contradicts_labels_is_told_and_corrects_the_shares(pets: Settings) -> None:
    engine, named = Engine("settled", classes=3), Classes.parse(pets.classes)
    numbers = [(int(task[1:]), int(worker[1:]), x) for task, worker, x in TOGETHER]
    tasks, workers, labels = zip(*numbers, strict=True)
    engine.take(tasks, workers, list(map(named.labels.index, labels)))
    golds = {task: task % 3 != 0 for task in range(120)}  # two of three are dogs
    engine.settle(1e-9)
    alone = engine.free_beliefs(np.arange(400)).mean(axis=0)
    for task, is_dog in golds.items():
        engine.set_gold(task, int(is_dog))
    engine.settle(1e-9)
    expected = engine.prevalence()
    assert expected is not None
    env = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    with (
        instance(pets.broker, pets.prefix, **env) as one,
        instance(pets.broker, pets.prefix, **env) as two,
    ):
        one.wait_ready()
        two.wait_ready()
        text = "task,worker,label\n" + "".join(map("{0[0]},{0[1]},{0[2]}\n".format, TOGETHER))
        ended = sbic(pets, "replay", "-", "--classes", pets.classes, stdin=text)
        assert ended.returncode == 0, ended.stderr
        found = until_status(pets, lambda now: now["prevalence"] and near(now, alone, 0.005))
        honesty = found["honesty"]
        assert (honesty["gold"], honesty["is_calibrated"], honesty["interval"]) == (0, False, None)
        assert not honesty["is_contradicted"]
        assert {share["interval"] for share in found["prevalence"].values()} == {None}
        assert "estimated from labels alone" in screen(pets)

        text = "".join(f"t{task},{'dog' if dog else 'cat'}\n" for task, dog in golds.items())
        ended = sbic(pets, "tasks", "import", "-", stdin=f"task,gold\n{text}")
        assert ended.returncode == 0, ended.stderr
        found = until_status(
            pets,
            lambda now: near(now, expected[0], 0.005) and now["honesty"]["is_contradicted"],
        )
        honesty = found["honesty"]
        assert (honesty["gold"], honesty["is_calibrated"]) == (120, True)
        assert honesty["gold_to_halve"] == 360
        assert honesty["wrong_on_gold"] > honesty["expected_wrong_on_gold"] + 5
        assert honesty["dependence"] == pytest.approx(engine.outside.dependence, abs=0.01)
        low, high = found["prevalence"]["dog"]["interval"]
        assert high - low == pytest.approx(2 * expected[1][1], abs=0.01)
        said = screen(pets)
        for words in (
            "calibrated by 120 gold tasks; 360 more would halve that",
            "independent votes",
        ):
            assert words in said
        assert "gold contradicts labels" in said
        for name in ("sbic_gold_tasks", "sbic_gold_wrong_predictions"):
            total = sum(running.metrics()[name] for running in (one, two))
            assert total == {"t": 120, "w": honesty["wrong_on_gold"]}[name[10]]
        assert all(running.metrics()["sbic_calibrated"] == 1 for running in (one, two))


async def test_at_most_twenty_sinks_are_shown_and_none_that_others_have_made_up(
    project: Settings,
) -> None:
    topics = Topics(project)
    known, other = TopicPartition(topics.posteriors.name, 0), TopicPartition(topics.labels.name, 0)
    await write(project, topics.posteriors.name, [(b"t", b"not ours")] * 40)
    (end,) = (await ends(project, [known])).values()
    for n in range(22):
        said = {0: "1700000000000", 1: "9" * 30, 2: "\u0663"}.get(n, "")
        await commit_as_sink(project, f"s{n:02}", {known: end + 7 if n == 3 else 0}, said)
    for name in ("\x1b[2J", "x" * 65, "", "a b"):
        await commit_as_sink(project, name, {known: 0}, "")
    await commit_as_sink(project, "00", {other: 0}, "")  # as the group of another project is
    found = await asyncio.to_thread(status, project)
    assert found["sinks"]["known"] == 22
    first = {each["name"]: each for each in found["sinks"]["first"]}
    assert list(first) == [f"s{n:02}" for n in range(19)]
    assert [first[f"s{n:02}"]["committed_at"] for n in range(4)] == [1700000000000, *[None] * 3]
    assert [first[f"s{n:02}"]["lag"] for n in range(5)] == [end, end, end, 0, end]
    assert "and 3 more" in await asyncio.to_thread(screen, project)


async def ends(settings: Settings, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers)
    await consumer.start()
    try:
        return dict(await consumer.end_offsets(partitions))
    finally:
        await consumer.stop()


def until_status(settings: Settings, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = monotonic() + 60
    while not holds(found := status(settings)):
        assert monotonic() < deadline, found
        sleep(0.2)
    return found


def near(now: dict[str, Any], expected: Floats, tolerance: float) -> bool:
    """Whether the shares of the classes are these."""
    shares = [share["share"] for share in (now["prevalence"] or {}).values()]
    return len(shares) == len(expected) and np.allclose(shares, expected, atol=tolerance)


def screen(settings: Settings) -> str:
    ended = sbic(settings, "status")
    assert ended.returncode == 0, ended.stderr
    return " ".join(ended.stdout.split())


def test_a_budget_that_nothing_will_spend_has_no_forecast() -> None:
    summary = Summary("birds", {"budget": 100}, activity=Activity(flow=Flow(12_345, 120)))
    assert summary.budget_seconds is None  # no task is open
    summary.tasks.add(parsed(SIGNS, posterior_of("t1", 0.1, 40, {}, 0)))
    assert summary.budget_seconds == 30


@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_of_it_fits_the_screen(width: int) -> None:
    activity = Activity(
        flow=Flow(12_345, 120),
        settled=Settledness(False, "7 tasks are due to be recomputed", 7),
        members=[Member("id", "192.168.100.100", [0, 1, 2, 5], 17)],
    )
    settings = {"classes": "-1,1", "alpha": 2.0, "budget": 100}
    summary = Summary("birds", settings, activity=activity)
    for number in range(30):
        posterior = posterior_of(f"a-rather-long-task-{'x' * 60}", 0.1, number, {}, 0)
        summary.tasks.add(parsed(SIGNS, posterior))
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
    summary = Summary("birds", {"classes": f"class{evil},other"}, activity=Activity())
    pets = summary.classes
    named = named_posterior_of(pets, f"task{evil}", [0.6, 0.4], 2, {}, 0)
    summary.tasks.add(parsed(pets, named))
    known = {"worker": f"worker{evil}", "accuracy": 0.5, "interval": [0.25, 0.75], "labels": 1}
    summary.workers.add(known)
    said = LetterHeaders(Origin("birds.labels", 0, 1), f"reason{evil}", "", False, False)
    summary.letters.add(Letter(0, said, 0, None, None))
    console = Console(width=120)
    with console.capture() as capture:
        console.print(StatusScreen(summary))
    assert "\x1b[2J" not in capture.get()
    assert "\u202e" not in capture.get()
    for name in ("task", "worker", "reason", "class"):
        assert f"{name}\\x1b[2J" in capture.get()


def test_shares_of_classes_and_what_labels_are_worth_fit_the_screen() -> None:
    rng = np.random.default_rng(1)
    classes = [f"class-{k}\x1b[2J" for k in range(12)]
    golds = np.where(np.arange(90) < 30, rng.integers(0, 12, 90), -1)
    shares = Moments.of_shares(rng.dirichlet(np.ones(12), 90), golds)
    found = Findings(0.25, 30, 20, 6.5, shares, np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS)))
    lag = dict.fromkeys(("labels", "votes", "tasks", "roster", "requests"), 0)
    activity = Activity(lag=lag, findings=found)
    summary = Summary("birds", {"classes": ",".join(classes)}, activity=activity)
    for number in range(90):
        gold = int(golds[number]) if golds[number] >= 0 else None
        chances = rng.dirichlet(np.ones(12)).tolist()
        posterior = named_posterior_of(
            Classes(tuple(classes)), f"t{number}", chances, 4, {}, 0, gold=gold
        )
        summary.tasks.add(parsed(summary.classes, posterior | {"effective_votes": 2.25}))
    Draft202012Validator(schema("status")).validate(loads(dumps(summary.as_object())))
    honesty = summary.as_object()["honesty"]
    assert (honesty["wrong_on_gold"], honesty["expected_wrong_on_gold"]) == (20, 6.5)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(StatusScreen(summary))
    assert max(map(len, capture.get().splitlines())) <= 80
    assert "\x1b[2J" not in capture.get()
    words = " ".join(capture.get().split())
    assert "2.2 independent votes a task, in the median, and never more than 4.0" in words
    assert "calibrated by 30 gold tasks; 90 more would halve that" in words
    assert "gold contradicts labels, which expected 6.5 of 30 wrong, not 20" in words
    assert "and 4 more" in words


def test_findings_are_known_once_every_instance_has_reported_them() -> None:
    shares = Moments.of_shares(np.array([[0.25, 0.75]]), np.array([-1]))
    one = Findings(0.5, 1, 0, 0.25, shares, np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS)))
    both = [frozenset({0, 2}), frozenset({1})]
    assert findings_of([], {0: one}) is None
    assert findings_of(both, {0: one}) is None
    assert findings_of(both, {0: one, 2: one}) is None
    together = findings_of([*both, frozenset()], {0: one, 1: one, 2: one})
    assert together is not None
    assert (together.gold, together.shares.tasks, together.dependence) == (2, 2, 0.5)


# A summary of posteriors counts each task once, however often it changed.


def test_only_the_last_posterior_of_each_task_counts() -> None:
    rng = Random(1)
    last: dict[str, Posterior] = {}
    tally = TaskTally()
    for _ in range(2000):
        task = f"t{rng.randrange(100)}"
        posterior = posterior_of(task, rng.gauss(0, 2), rng.randrange(9), {}, 0)
        if rng.random() < 0.3:
            posterior |= {"status": "closed", "reason": rng.choice(("labels", "confident"))}
        last[task] = posterior
        tally.add(parsed(SIGNS, posterior))
    tally.remove("t0")
    del last["t0"]
    records = list(last.values())
    assert len(tally) == len(records)
    assert tally.labels == sum(record["labels"] for record in records)
    assert tally.open == sum(record["status"] == "open" for record in records)
    assert sum(tally.closed.values()) == len(records) - tally.open
    assert tally.without_labels == sum(record["labels"] == 0 for record in records)
    doubts = [min(record["probability"], 1 - record["probability"]) for record in records]
    assert tally.expected_wrong == pytest.approx(sum(doubts))
    asked = [(1 - d, -r["labels"]) for d, r in zip(doubts, records, strict=True) if r["labels"] > 1]
    found = [(task.confidence, -task.labels) for task in tally.most_disputed(10)]
    assert found == sorted(asked)[:10]


def test_named_classes_and_gold() -> None:
    pets = Classes.parse("cat,dog,bird")
    tally = TaskTally()
    tally.add(parsed(pets, named_posterior_of(pets, "t1", [0.5, 0.25, 0.25], 3, {}, 0)))
    tally.add(parsed(pets, named_posterior_of(pets, "t2", [0.5, 0.25, 0.25], 3, {}, 0, gold=1)))
    assert tally.expected_wrong == 0.5
    assert tally.gold == 1
    (disputed,) = tally.most_disputed(10)
    assert (disputed.task, disputed.prediction, disputed.confidence) == ("t1", 0, 0.5)


def test_gold_says_how_far_the_expected_wrong_can_be_believed() -> None:
    pets, tally = Classes.parse("cat,dog"), TaskTally()
    assert tally.honesty.interval is None

    def add(number: int, sure: float, is_right: bool, is_gold: bool) -> None:
        shares = [sure, 1 - sure]
        gold = (0 if is_right else 1) if is_gold else None
        record = named_posterior_of(pets, f"t{number}", shares, 5, {}, 0, gold=gold)
        tally.add(parsed(pets, record))

    for number in range(400):
        add(number, 0.8, number % 5 > 0, number < 100)
    honest = tally.honesty
    assert (honest.gold, honest.gold_to_halve) == (100, 300)
    assert honest.interval is not None
    assert honest.interval[0] < 0.2 < honest.interval[1]
    assert honest.interval[1] - honest.interval[0] < 0.25
    assert not honest.is_contradicted
    for number in range(100):
        add(number, 0.98, number % 5 > 0, is_gold=True)
    assert tally.honesty.is_contradicted
    assert tally.honesty.expected == pytest.approx(2)
