"""`sbic replay`: every label of a file reaches the topic, and --wait knows when it is counted."""

import asyncio
import csv
import gzip
import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pytest
from orjson import loads

from sbic.commands import replay as replay_module
from sbic.commands.replay import GaveUp, Replayed, replay
from sbic.kafka.writer import NumberedLabel
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.local.processes import are_settled
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.instances import instance
from tests.projects import (
    PARTITIONS,
    Row,
    environment,
    new_project,
    records_of,
    sbic,
    write_labels,
)


def some_labels(count: int, seed: int = 0) -> list[Row]:
    rng = Random(seed)
    return [
        (f"t{rng.randrange(20)}", f"wörker {rng.randrange(30)}", rng.choice([1, -1]))
        for _ in range(count)
    ]


async def sent(settings: Settings) -> list[list[Row]]:
    """The labels in the topic, by partition; each keyed by its worker and where it belongs."""
    partitions: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for record in await records_of(settings, Topics(settings).labels.name):
        value = loads(record.value)
        task, worker, label = value["task"], value["worker"], value["label"]
        assert record.key == worker.encode()
        assert record.partition == partition_of(worker.encode(), PARTITIONS)
        partitions[record.partition].append((task, worker, label))
    return partitions


def by_partition(rows: list[Row]) -> list[list[Row]]:
    partitions: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for row in rows:
        partitions[partition_of(row[1].encode(), PARTITIONS)].append(row)
    return partitions


async def test_every_label_is_sent_once_keyed_by_worker_in_the_order_of_the_file(
    project: Settings, tmp_path: Path
) -> None:
    rows = some_labels(10_000)  # more than one portion, repeats among them
    ended = sbic(project, "replay", str(write_labels(tmp_path / "labels.csv", rows)))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("labels sent: 10,000 in ")
    assert await sent(project) == by_partition(rows)


async def test_batches_that_exceed_what_kafka_takes_at_once_are_split(project: Settings) -> None:
    rows: list[Row] = [(f"{number:0250}", "x" * 250, 1) for number in range(3000)]
    labels = [NumberedLabel(task, worker, 1) for task, worker, _ in rows]
    await replay(project, labels, Replayed(), rate=None, wait=False, patience=None, note=print)
    assert await sent(project) == by_partition(rows)


async def test_a_shuffle_is_another_order_and_the_same_seed_the_same(
    project: Settings, tmp_path: Path
) -> None:
    rows = some_labels(300)
    path = str(write_labels(tmp_path / "labels.csv", rows))
    for seed in ("7", "7", "8"):
        ended = sbic(project, "replay", path, "--shuffle", "--seed", seed, "--rate", "5000")
        assert ended.returncode == 0, ended.stderr
    for partition, there in zip(await sent(project), by_partition(rows), strict=True):
        size = len(there)
        first, second, third = (partition[n * size : (n + 1) * size] for n in range(3))
        assert first == second
        assert first != third
        assert first != there
        assert sorted(first) == sorted(third) == sorted(there)


def test_wait_returns_when_all_are_counted_even_the_second_time(
    project: Settings, tmp_path: Path
) -> None:
    rows = some_labels(2000)
    path = write_labels(tmp_path / "labels.csv", [*rows, ("skipped", "ann", 0)])
    counted = len({(task, worker) for task, worker, _ in rows})
    partitions = {"SBIC_PARTITIONS": str(PARTITIONS)}
    with instance(project.broker, project.prefix, **partitions) as running:
        running.wait_ready()
        for repeats in (len(rows) - counted, len(rows)):
            ended = sbic(project, "replay", str(path), "--wait", "--timeout", "60")
            assert ended.returncode == 0, ended.stderr
            assert "all counted after" in ended.stderr
            assert "\nskips: 1\n" in ended.stderr
            assert f"\nrepeats: {repeats:,} (answers that were given before;" in ended.stderr
            # what it promises is already there, without any further waiting
            table = csv.DictReader(io.StringIO(sbic(project, "export", "posteriors").stdout))
            assert sum(int(row["labels"]) for row in table) == counted
        repeated = running.metrics()['sbic_labels_total{outcome="repeated"}']
        assert repeated == 2 * len(rows) - counted


def test_wait_gives_up_when_nothing_is_counted(project: Settings, tmp_path: Path) -> None:
    path = str(write_labels(tmp_path / "labels.csv", some_labels(10)))
    ended = sbic(project, "replay", path, "--wait", "--timeout", "0.5")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(
        "sbic: 10 labels are not counted, and none was counted in the last 0.5 seconds"
    )


async def test_a_person_who_waits_in_vain_is_told_what_to_do(
    project: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "QUIET_SECONDS", 0.1)
    notes: list[str] = []
    options: dict[str, Any] = {"rate": None, "wait": True, "patience": 1}
    labels = [NumberedLabel(task, worker, 1) for task, worker, _ in some_labels(3)]
    with pytest.raises(GaveUp):
        await replay(project, labels, Replayed(), note=notes.append, **options)
    start = f"sbic run --prefix {project.prefix} --broker {project.broker}"
    assert f"3 to go: is an instance running? Start one with: {start}" in notes[0]


def test_ctrl_c_says_what_is_unsent_and_how_to_go_on(project: Settings, tmp_path: Path) -> None:
    path = str(write_labels(tmp_path / "labels.csv", some_labels(1000)))
    with subprocess.Popen(
        [sys.executable, "-m", "sbic", "replay", path, "--rate", "100"],
        env=environment(project),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = monotonic() + 30
        while not any(asyncio.run(sent(project))):
            assert monotonic() < deadline
            sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=30)
    assert process.returncode == 130
    unsent, interrupted = text.strip().splitlines()
    assert interrupted == "sbic: interrupted"
    found = re.match(r"Kafka has acknowledged (\d+) of 1,000 labels", unsent)
    assert found
    assert 0 < int(found[1]) <= sum(map(len, asyncio.run(sent(project))))
    assert "run the same command again" in unsent


def test_repeats_within_a_file_are_told(project: Settings) -> None:
    text = "task,worker,label\nt1,ann,1\nt1,bob,1\nt1,ann,-1\n"
    ended = sbic(project, "replay", "-", stdin=text)
    assert "repeats: 1 (answers within the file;" in ended.stderr


def test_labels_come_from_standard_input_too(project: Settings) -> None:
    ended = sbic(project, "replay", "-", stdin="task,worker,label\nt1,ann,1\n")
    assert (ended.returncode, ended.stderr[:14]) == (0, "labels sent: 1")


async def test_other_columns_and_labels_are_sent_as_the_topic_has_them(
    project: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "answers.csv.gz"
    path.write_bytes(
        gzip.compress("HIT;Worker;Label\nt1; ann ;yes\nt1;bob;no\nt2;bob;?\n".encode("utf-16"))
    )
    options = ["--columns", "task=HIT", "--positive", "yes", "--negative", "no", "--skip", "?"]
    ended = sbic(project, "replay", str(path), *options)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.endswith("skips: 1\n")
    rows: list[Row] = [("t1", "ann", 1), ("t1", "bob", -1), ("t2", "bob", 0)]
    assert await sent(project) == by_partition(rows)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task,worker,label\nt1,ann,1\nt1,bob\n", "line 3: has 2 fields, but the header has 3"),
        ("task,worker,label\n", "has no labels"),
        ("task,worker,label\nt1,ann,0\nt2,ann,1\n", "--positive 1 --negative 0"),
        ("task,worker,label\nt1,ann,yes\nt2,ann,no\n", "with --positive and --negative"),
        ("task,worker,label\nt1,ann,yes\nt2,ann,no\n", "classes=no,yes"),
        (f"task,worker,label\nt1,ann,1\n{'é' * 150},ann,1\n", "300 bytes, more than 256"),
    ],
)
async def test_a_file_with_a_mistake_is_refused_and_none_of_it_sent(
    project: Settings, text: str, problem: str
) -> None:
    ended = sbic(project, "replay", "-", stdin=text)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line
    assert await sent(project) == [[], [], []]


async def test_labels_of_named_classes_are_strings_and_a_skip_is_0(pets: Settings) -> None:
    text = "task,worker,label\nt1,ann, dog \nt1,bob,?\nt2,bob,cat\nt2,ann,\n"
    one_by_one = [part for name in ("cat", "dog", "bird") for part in ("--classes", name)]
    ended = sbic(pets, "replay", "-", *one_by_one, "--skip", "?", stdin=text)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.endswith("skips: 2\n")
    rows: list[Row] = [("t1", "ann", "dog"), ("t1", "bob", 0), ("t2", "bob", "cat")]
    assert await sent(pets) == by_partition([*rows, ("t2", "ann", 0)])


async def test_labels_are_sent_as_the_classes_that_a_map_says(pets: Settings) -> None:
    text = "task,worker,label\nt1,ann,Katze\nt1,bob,dog\nt2,bob,HUND\nt2,ann,?\n"
    maps = ["--label-map", "Katze=cat", "--label-map", "Hund=dog", "--label-map", "?=0"]
    refused = sbic(pets, "replay", "-", *maps, stdin=text)
    assert refused.returncode == 2
    assert "line 4: the label 'HUND' is not one of" in refused.stderr
    ended = sbic(pets, "replay", "-", *maps, "--ignore-case", stdin=text)
    assert ended.returncode == 0, ended.stderr
    rows: list[Row] = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "bob", "dog")]
    assert await sent(pets) == by_partition([*rows, ("t2", "ann", 0)])
    wrong = sbic(pets, "replay", "-", "--label-map", "Katze=lion", stdin=text)
    assert wrong.returncode == 2
    assert "'lion' is not one of 'cat', 'dog', 'bird', or 0 to skip" in wrong.stderr


async def test_two_labels_become_1_and_minus_1_by_a_map(project: Settings) -> None:
    text = "task,worker,label\nt1,ann,yes\nt1,bob,no\nt2,bob,unsure\n"
    maps = ["--label-map", "yes=1", "--label-map", "no=-1", "--label-map", "unsure=0"]
    ended = sbic(project, "replay", "-", *maps, stdin=text)
    assert ended.returncode == 0, ended.stderr
    rows: list[Row] = [("t1", "ann", 1), ("t1", "bob", -1), ("t2", "bob", 0)]
    assert await sent(project) == by_partition(rows)


async def test_0_and_1_are_strings_too_where_they_are_names_of_classes(project: Settings) -> None:
    text = "task,worker,label\nt1,ann,0\nt1,bob,1.0\nt1,cem,+1\n"
    assert sbic(project, "project", "set", "classes=0,1").returncode == 0
    ended = sbic(project, "replay", "-", stdin=text)
    assert ended.returncode == 0, ended.stderr
    rows: list[Row] = [("t1", "ann", "0"), ("t1", "bob", "1"), ("t1", "cem", "1")]
    assert await sent(project) == by_partition(rows)


@pytest.mark.parametrize(
    ("label", "arguments", "problem"),
    [
        ("fish", [], "line 2: the label 'fish' is not one of the classes of the project: cat, dog"),
        ("1", [], "the label '1' is not one of the classes of the project: cat, dog, bird"),
        ("cat", ["--positive", "cat", "--negative", "dog"], "but the classes of the project are"),
        ("cat", ["--skip", "cat"], "'cat' is a class and a skip"),
    ],
)
async def test_a_label_that_is_no_class_of_the_project_is_refused_and_nothing_sent(
    pets: Settings, label: str, arguments: list[str], problem: str
) -> None:
    text = f"task,worker,label\nt1,ann,{label}\n"
    ended = sbic(pets, "replay", "-", "--classes", pets.classes, *arguments, stdin=text)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line
    assert await sent(pets) == [[], [], []]


def test_wait_knows_when_labels_of_named_classes_are_counted(
    pets: Settings, tmp_path: Path
) -> None:
    rng = Random(1)
    names = pets.crowd_classes.names
    rows: list[Row] = [(task, worker, rng.choice(names)) for task, worker, _ in some_labels(500)]
    path = str(write_labels(tmp_path / "labels.csv", rows))
    settings = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    with instance(pets.broker, pets.prefix, **settings) as running:
        running.wait_ready()
        arguments = ["--classes", pets.classes, "--wait", "--timeout", "60"]
        ended = sbic(pets, "replay", path, *arguments)
        assert ended.returncode == 0, ended.stderr
        assert "all counted after" in ended.stderr
        deadline = monotonic() + 30
        while not are_settled([int(running.url.rpartition(":")[2])]):
            assert monotonic() < deadline, running.log()
        counted = running.metrics()['sbic_labels_total{outcome="counted"}']
    assert counted == len({(task, worker) for task, worker, _ in rows})


@pytest.mark.parametrize("arguments", [["--seed", "1"], ["--timeout", "1"], ["--rate", "0"]])
def test_options_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    ended = sbic(Settings(), "replay", "labels.csv", *arguments)
    assert ended.returncode == 2
    assert arguments[0] in ended.stderr


@pytest.mark.parametrize("tool", [["replay", "-"], ["watch"], ["export", "workers"], ["simulate"]])
class TestWithoutWhatTheyNeed:
    def test_no_broker_is_one_line_and_status_1(self, tool: list[str]) -> None:
        nowhere = Settings(broker=f"kafka://127.0.0.1:{free_port()}")
        ended = sbic(nowhere, *tool, stdin="task,worker,label\nt1,ann,1\n")
        assert (ended.returncode, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert f"no Kafka answers at {nowhere.bootstrap_servers[0]}" in line

    def test_no_topics_is_one_line_that_says_how_to_make_them(
        self, tool: list[str], broker: EmbeddedBroker
    ) -> None:
        ended = sbic(new_project(broker), *tool, stdin="task,worker,label\nt1,ann,1\n")
        assert (ended.returncode, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert "create it with: sbic topics --prefix " in line
