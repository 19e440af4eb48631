"""`sbic simulate`: a crowd that behaves as it should, on the real pipeline."""

import asyncio
import csv
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import cast

import click
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from orjson import loads

from sbic.classes import SIGNS
from sbic.commands import crowd, simulate
from sbic.commands.crowd import Habits, NoAnswer, Plan
from sbic.commands.simulate import project_of
from sbic.local.broker import EmbeddedBroker
from sbic.progress import progress
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.brokers import kill, needs_proc
from tests.instances import instance
from tests.projects import PARTITIONS, environment, made, new_project, records_of, sbic, write

SMALL = ("--tasks", "40", "--workers", "30", "--at-once", "8", "--labels-per-task", "6")


def errors_in(path: Path) -> dict[str, list[float]]:
    """The errors by labels per task, of each policy."""
    found: dict[str, list[float]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            own = found.setdefault(row["policy"], [])
            own.append(float(row["error"]))
            assert int(row["labels_per_task"]) == len(own)
            assert float(row["low"]) <= own[-1] <= float(row["high"])
    return found


async def last_of_each(settings: Settings, topic: str) -> dict[str, dict[str, object]]:
    records = await records_of(settings, topic)
    return {record.key.decode(): loads(record.value) for record in records}


async def test_the_crowd_does_what_the_options_say_and_leaves_no_open_task_behind(
    project: Settings, tmp_path: Path
) -> None:
    habits = ("--drop-outs", "0.2", "--skips", "0.1", "--repeats", "0.2", "--spammers", "0.2")
    with instance(project.broker, project.prefix, SBIC_PARTITIONS=str(PARTITIONS)) as one:
        one.wait_ready()
        ended = sbic(project, "simulate", *SMALL, *habits, "--seed", "3", "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assigned = await pairs_assigned(project)
    records = await records_of(project, Topics(project).labels.name)
    labels = [loads(record.value) for record in records]
    given = Counter((label["worker"], label["task"]) for label in labels)
    skipped = {(label["worker"], label["task"]) for label in labels if label["label"] == 0}
    assert given.keys() <= assigned, "workers answer only what they were given"
    assert len(given) - len(skipped) == 240, "as many as were asked for"
    assert 0 < len(skipped) < 60
    assert set(given.values()) == {1, 2}
    dropped = assigned - given.keys()
    assert 0 < len(dropped) == len({worker for worker, _ in dropped}) < 15
    for what, count in ("drop-outs", len(dropped)), ("skips", len(skipped)):
        assert f"{what} {count}" in ended.stderr
    assert await all_closed(project)
    await check_errors(project, tmp_path, ended.stdout)


async def pairs_assigned(settings: Settings) -> set[tuple[str, str]]:
    """Worker and task of every assignment."""
    assigned = set()
    for record in await records_of(settings, Topics(settings).assignments.name):
        assignment = loads(record.value)
        if assignment["task"] is not None and "ended" not in assignment:
            pair = assignment["worker"], assignment["task"]
            assert pair not in assigned, "no worker gets a task twice"
            assigned.add(pair)
    return assigned


async def check_errors(settings: Settings, folder: Path, table: str) -> None:
    """The last error is that of the posteriors, and the table has it too."""
    ((policy, errors),) = errors_in(folder / "simulate.csv").items()
    assert (policy, len(errors)) == ("uncertainty", 6)
    assert (folder / "simulate.png").read_bytes().startswith(b"\x89PNG")
    assert f"6                     {errors[-1]:.4f}" in table
    posteriors = await last_of_each(settings, Topics(settings).posteriors.name)
    assert sum(int(str(one["labels"])) for one in posteriors.values()) == 240
    name = next(iter(posteriors)).rpartition("-task-")[0]
    truth = Plan(tasks=40, seed=3).draw_truth(name)
    assert posteriors.keys() == truth.keys()
    predictions = {task: posteriors[task]["prediction"] for task in truth}
    halves = sum(
        1 if predictions[task] == 0 else 2 * (predictions[task] != SIGNS.label_of(right))
        for task, right in truth.items()
    )
    assert errors[-1] == halves / 80


async def all_closed(settings: Settings) -> bool:
    """Whether the last that the tool said of every task is that it is closed."""
    said = await last_of_each(settings, Topics(settings).tasks.name)
    return bool(said) and all(one["status"] == "closed" for one in said.values())


async def test_tiers_work_one_after_the_other_and_the_error_falls_with_the_money(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    project = replace(new_project(broker), partitions=Settings().partitions)
    options = "--tasks", "60", "--at-once", "8", "--labels-per-task", "20", "--seed", "2"
    tiers = "--tiers", "5:0.01:0.65", "--tiers", "2:1:0.97"
    refused = sbic(project, "simulate", *options, *tiers)
    assert refused.returncode == 2
    assert "project set policy=escalate stop_confidence=0.9" in refused.stderr
    ended = sbic(
        project, "simulate", *options, *tiers, "--policy", "escalate", "--out", str(tmp_path)
    )
    assert ended.returncode == 0, ended.stderr
    with (tmp_path / "simulate.csv").open() as file:
        rows = [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]
    assert rows[0]["spent"] < 0.2, "cheap workers first"
    assert rows[-1]["error"] < rows[0]["error"]
    there = project_of(project, "escalate", Plan())
    given = [loads(record.value) for record in await records_of(there, Topics(there).labels.name)]
    cheap = [label for label in given if int(label["worker"][-5:]) < 5]
    cost = 0.01 * len(cheap) + (len(given) - len(cheap))
    assert rows[-1]["spent"] == pytest.approx(cost / 60)
    assert 0 < len(given) - len(cheap) <= 120
    said = {r.key: r.value for r in await records_of(there, Topics(there).roster.name)}
    assert list(said.values()) == [None] * 7, "nothing is left on the roster"
    found = await last_of_each(there, Topics(there).posteriors.name)
    assert {posterior["reason"] for posterior in found.values()} <= {"confident", "escalated"}
    assert len(found) == 60


async def test_open_tasks_of_others_are_left_alone(project: Settings) -> None:
    with instance(project.broker, project.prefix, SBIC_PARTITIONS=str(PARTITIONS)) as one:
        one.wait_ready()
        await write(project, Topics(project).tasks.name, [(b"t1", b'{"task": "t1"}')])
        replayed = sbic(project, "replay", "-", "--wait", stdin="task,worker,label\nt2,ann,1\n")
        assert replayed.returncode == 0
        ended = sbic(project, "simulate", *SMALL)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "already has" in line
    assert "open tasks" in line
    assert "choose another --prefix" in line
    assert len(await records_of(project, Topics(project).tasks.name)) == 1


def test_it_ends_when_the_stop_rule_has_closed_all_tasks(project: Settings, tmp_path: Path) -> None:
    assert sbic(project, "project", "set", "stop_labels=3").returncode == 0
    with instance(project.broker, project.prefix) as one:
        one.wait_ready()
        for _ in range(2):  # the tasks of the first run are closed, and not in the way
            ended = sbic(project, "simulate", *SMALL, "--out", str(tmp_path))
            assert ended.returncode == 0, ended.stderr
            assert "no-open-task" in ended.stderr
            table = csv.DictReader(sbic(project, "export", "posteriors").stdout.splitlines())
            assert {row["reason"] for row in table} == {"labels"}, "as the rule has closed them"
    ((_, errors),) = errors_in(tmp_path / "simulate.csv").items()
    assert 3 <= len(errors) < 6, "at least this many each, and those in flight"


async def test_policies_are_compared_on_pipelines_of_their_own_which_end_with_it(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = new_project(broker)
    ended = sbic(settings, "simulate", *SMALL, "--policy", "compare", "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    errors = errors_in(tmp_path / "simulate.csv")
    assert list(errors) == ["uniform", "uncertainty"]
    assert [len(each) for each in errors.values()] == [6, 6]
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        for policy in errors:
            (answer,) = await admin.describe_consumer_groups([f"{settings.prefix}-{policy}"])
            ((_, _, state, *_),) = answer.groups
            assert state == "Empty", "no instance is left"
    finally:
        await admin.close()


def test_a_crowd_with_named_classes_works_with_the_pipeline_that_runs(
    pets: Settings, tmp_path: Path
) -> None:
    arguments = ["--classes", pets.classes, "--class-prior", "0.6,0.2,0.2", "--habits", "0.3"]
    settings = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    with instance(pets.broker, pets.prefix, **settings) as one:
        one.wait_ready()
        ended = sbic(pets, "simulate", *SMALL, *arguments, "--skips", "0.1", "--out", str(tmp_path))
        assert ended.returncode == 0, ended.stderr
        posteriors = sbic(pets, "export", "posteriors").stdout.splitlines()
    assert "40 tasks of 3 classes" in ended.stdout
    ((_, errors),) = errors_in(tmp_path / "simulate.csv").items()
    assert len(errors) == 6
    assert errors[-1] < 0.66, "better than by chance"
    assert posteriors[0].startswith("task,prediction,confidence,p:cat,p:dog,p:bird,labels")
    assert sum(int(line.split(",")[6]) for line in posteriors[1:]) == 240


async def test_an_algorithm_and_classes_have_instances_and_prefixes_of_their_own(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = new_project(broker)
    own = ["--policy", "uniform", "--out", str(tmp_path)]
    for more in (["--algorithm", "settled"], ["--classes", "cat,dog,bird"], []):
        ended = sbic(settings, "simulate", *SMALL, *own, *more)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr.startswith("uniform: 240 labels in ")
    plan = Plan()
    projects = [
        replace(settings, algorithm="settled"),
        replace(settings, classes="cat,dog,bird"),
        settings,
    ]
    habits = []
    for each in projects:
        own_project = project_of(each, "uniform", plan)
        workers = await last_of_each(own_project, Topics(own_project).workers.name)
        known = (cast(dict[str, float], one.get("habits", {})) for one in workers.values())
        habits.append({frozenset(each) for each in known})
    names = ({"-1", "1"}, {"cat", "dog", "bird"}, set[str]())
    assert habits == [{frozenset(each)} for each in names]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_stopping_it_leaves_no_open_task(project: Settings, stop: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sbic", "simulate", *SMALL),
        env=environment(project),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        tasks = Topics(project).tasks.name
        async with asyncio.timeout(60):
            while len(await records_of(project, tasks)) < 40:  # it waits for an instance then
                assert process.returncode is None
            process.send_signal(stop)
            _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, errors.decode().strip()) == (130, "sbic: interrupted")
    assert await all_closed(project)


async def test_without_an_instance_the_person_is_told_what_to_do(
    project: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "PATIENCE_SECONDS", 0.2)
    plan = Plan(tasks=2, workers=2, labels_per_task=1, habits=Habits())
    with progress("") as advance, pytest.raises(NoAnswer, match="sbic run"):
        await simulate.simulate(project, plan, advance)
    assert await all_closed(project), "an instance that starts later finds no open task"


@pytest.mark.broker
@needs_proc
def test_a_broker_that_goes_away_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crowd, "PATIENCE_SECONDS", 3)
    with EmbeddedBroker() as broker:
        project = made(new_project(broker))
        with instance(broker.url, project.prefix, SBIC_PARTITIONS=str(PARTITIONS)) as one:
            one.wait_ready()

            def kill_at_work() -> None:
                one.metrics_with('sbic_labels_total{outcome="counted"}', 5)
                kill(broker)

            killing = Thread(target=kill_at_work)
            killing.start()
            plan = Plan(
                tasks=40, workers=30, labels_per_task=6, at_once=8, habits=Habits(think_seconds=1)
            )
            handler = signal.getsignal(signal.SIGTERM)
            try:
                with pytest.raises(click.ClickException, match="no Kafka answers at"):
                    simulate.carry_out(project, None, plan)
            finally:
                signal.signal(signal.SIGTERM, handler)
                killing.join()
            one.kill()
    assert "Traceback" not in capfd.readouterr().err


OWN = ["--policy", "uniform"]  # its classes are known before any Kafka is asked


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--workers", "5", "--labels-per-task", "6"], "a worker answers each task at most once"),
        (["--skips", "1"], "--skips"),
        (["--drop-outs", "-0.1"], "--drop-outs"),
        (["--accuracy", "0", "1"], "--accuracy"),
        (["--policy", "random"], "--policy"),
        (["--algorithm", "settled"], "--algorithm needs --policy"),
        ([*OWN, "--class-prior", "0.5,0.3,0.2"], "--class-prior must be 2 numbers"),
        ([*OWN, "--class-prior", "0.5,0.3"], "--class-prior must be learned, uniform, or a number"),
        ([*OWN, "--class-prior", "learned"], "--class-prior must be a number for each class"),
        (["--habits", "2"], "--habits"),
        (
            ["--classes", "a,b,c", "--policy", "uniform", "--algorithm", "fast-sbic"],
            "SBIC_ALGORITHM must be settled",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], problem: str) -> None:
    ended = sbic(Settings(), "simulate", *arguments)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line
