"""`sbic export`: the last record of every key, as CSV, whole or not at all."""

import asyncio
import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from arro3.io import read_parquet
from click.testing import CliRunner
from orjson import dumps, loads

from sbic.classes import Classes
from sbic.commands.main import sbic as command
from sbic.files.writing import parquet_parts, write_parts_atomically
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.workers import encode_worker
from tests.instances import instance
from tests.projects import PARTITIONS, environment, made, new_project, sbic, write
from tests.records.made import encode_posterior, named_posterior_of, posterior_of

HEADER = (
    "task,log_odds,probability,prediction,labels,status,reason,reopened,gold,evidence,prior,"
    "sources,updated_at\n"
)


def posterior(task: str, log_odds: float, labels: int) -> tuple[bytes, bytes]:
    record = posterior_of(task, log_odds, labels, {"0": labels}, 1700000000000)
    return task.encode(), encode_posterior(record)


def worker(accuracy: float, labels: int, correct: float) -> bytes:
    return encode_worker(
        {
            "worker": "ann",
            "accuracy": accuracy,
            "interval": [0.3, 0.99],
            "labels": labels,
            "correct": correct,
            "gold": 0,
            "gold_right": 0,
            "last_seen": 1700000000000,
        }
    )


async def test_the_last_posterior_of_each_task_sorted_by_task(project: Settings) -> None:
    records = [
        posterior("b", 0.5, 1),
        posterior("a,1", -0.1, 1),
        posterior("gone", 3.0, 2),
        posterior("b", 0.0, 2),
        (b"gone", None),
        (b"stranger", b"not ours"),
    ]
    await write(project, Topics(project).posteriors.name, records)
    ended = sbic(project, "export", "posteriors")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == HEADER + (
        '"a,1",-0.1,0.47502081252106,-1,1,open,,,,,,"{""0"":1}",1700000000000\n'
        'b,0.0,0.5,0,2,open,,,,,,"{""0"":2}",1700000000000\n'
    )


def test_workers_into_a_file(project: Settings, tmp_path: Path) -> None:
    values = [
        worker(accuracy=2 / 3, labels=0, correct=0.0),
        worker(accuracy=0.75, labels=1, correct=1.0),
        b'{"worker": "bob"}',
    ]
    topic = Topics(project).workers.name
    asyncio.run(write(project, topic, zip([b"ann", b"ann", b"bob"], values, strict=True)))
    target = tmp_path / "workers.csv"
    target.write_text("what was there before")
    ended = sbic(project, "export", "workers", "-o", str(target))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert target.read_text() == (
        "worker,accuracy,interval_low,interval_high,labels,correct,gold,gold_right,last_seen\n"
        "ann,0.75,0.3,0.99,1,1.0,0,0,1700000000000\n"
    )
    assert list(tmp_path.iterdir()) == [target]


def named(task: str, classes: str, probabilities: list[float], labels: int) -> tuple[bytes, bytes]:
    sources = {"0": labels}
    record = named_posterior_of(Classes.parse(classes), task, probabilities, labels, sources, 17)
    return task.encode(), encode_posterior(record)


async def test_named_classes_have_a_column_each_in_their_order(broker: EmbeddedBroker) -> None:
    project = await asyncio.to_thread(made, new_project(broker, classes="dog,cat,a bird"))
    records = [
        named("t1", "dog,cat,a bird", [0.25, 0.5, 0.25], 3),
        named("t2", "dog,cat,a bird", [0.4, 0.4, 0.2], 2),
        named("of another crowd", "dog,cat", [0.25, 0.75], 1),
        posterior("of another kind", 3.0, 2),
        (b"t3", b'{"task": "t3", "probabilities": {"dog": 2.0, "cat": -1.0}}'),
    ]
    await write(project, Topics(project).posteriors.name, records)
    ended = sbic(project, "export", "posteriors")
    assert ended.stdout == (
        "task,prediction,confidence,p:dog,p:cat,p:a bird,labels,status,reason,reopened,gold,"
        "sources,updated_at\n"
        't1,cat,0.5,0.25,0.5,0.25,3,open,,,,"{""0"":3}",17\n'
        't2,,0.4,0.4,0.4,0.2,2,open,,,,"{""0"":2}",17\n'
    )


async def test_json_lines_are_the_records_as_they_are(project: Settings, tmp_path: Path) -> None:
    _, value = posterior("a", 0.25, 2)
    gold = {**loads(value), "task": "b", "gold": True, "evidence": -0.5, "prior": 0.25}
    records = [(b"a", value), (b"b", dumps(gold))]
    await write(project, Topics(project).posteriors.name, records)
    target = tmp_path / "posteriors.jsonl"
    assert sbic(project, "export", "posteriors", "-o", str(target)).returncode == 0
    assert target.read_bytes() == value + b"\n" + dumps(gold) + b"\n"
    last = sbic(project, "export", "posteriors").stdout.splitlines()[-1]
    assert ",open,,,true,-0.5,0.25," in last


@pytest.mark.parametrize(("repeats", "stands"), [("first", -1), ("last", 1)])
async def test_the_labels_that_stand_are_those_that_infer_reads_back(
    broker: EmbeddedBroker, repeats: str, stands: int
) -> None:
    project = (await open_project(Given.of(new_project(broker, repeats=repeats)))).settings
    values: list[bytes | None] = [
        encode_label(*label)
        for label in (
            *[("t2", "ann", 1), ("t1", "ann", -1), ("t1", "ann", 1), ("t3", "ann", 1)],
            *[("t3", "ann", None), ("t4", "ann", 0), ("t2", "ann", 0)],
        )
    ]
    values += [b"not a label", None]
    here = partition_of(b"ann", PARTITIONS)
    labels = Topics(project).labels.name
    await write(project, labels, [(b"ann", value) for value in values])
    elsewhere = next(key for n in range(99) if partition_of(key := b"%d" % n, PARTITIONS) != here)
    await write(project, labels, [(elsewhere, encode_label("t9", "ann", 1))])
    table = sbic(project, "export", "labels")
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout == f"task,worker,label\nt2,ann,1\nt1,ann,{stands}\n"
    lines = sbic(project, "export", "labels", "--format", "jsonl").stdout
    assert list(map(loads, lines.splitlines())) == [
        {"task": "t2", "worker": "ann", "label": 1},
        {"task": "t1", "worker": "ann", "label": stands},
    ]
    for text in (table.stdout, lines):
        ended = sbic(project, "infer", "-", "--algorithm", "majority", stdin=text)
        assert ended.returncode == 0, ended.stderr
        assert [line.split(",")[0] for line in ended.stdout.splitlines()[1:]] == ["t2", "t1"]


async def test_labels_of_an_aborted_transaction_are_not_exported(project: Settings) -> None:
    topic, partition = Topics(project).labels.name, partition_of(b"ann", PARTITIONS)
    servers = project.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="export") as producer:
        for task, is_kept in (("t1", True), ("t2", False)):
            await producer.begin_transaction()
            value = encode_label(task, "ann", 1)
            await producer.send_and_wait(topic, value, key=b"ann", partition=partition)
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    exported = await asyncio.to_thread(sbic, project, "export", "labels")
    assert exported.stdout == "task,worker,label\nt1,ann,1\n"


async def test_one_stray_record_does_not_change_the_columns(project: Settings) -> None:
    records = [posterior("a", 0.0, 2), posterior("b", 0.0, 2), named("c", "x,y", [0.5, 0.5], 1)]
    await write(project, Topics(project).posteriors.name, records)
    text = sbic(project, "export", "posteriors").stdout
    assert text.startswith(HEADER + "a,0.0,0.5,0,2,")
    assert len(text.splitlines()) == 3


async def test_workers_have_theta_and_habits_where_these_are_known(project: Settings) -> None:
    ann = loads(worker(accuracy=0.75, labels=1, correct=1.0))
    ann |= {"theta": 0.5, "habits": {"cat": 0.125, "dog": 0.875}}
    bad = ann | {"worker": "bob", "habits": [0.5, 0.5]}
    records = [(one["worker"].encode(), dumps(one)) for one in (ann, bad)]
    await write(project, Topics(project).workers.name, records)
    assert sbic(project, "export", "workers").stdout == (
        "worker,accuracy,interval_low,interval_high,labels,correct,gold,gold_right,last_seen,"
        "theta,habit:cat,habit:dog\n"
        "ann,0.75,0.3,0.99,1,1.0,0,0,1700000000000,0.5,0.125,0.875\n"
    )


def test_what_a_project_with_named_classes_publishes_is_exported(pets: Settings) -> None:
    settings = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    labels = "task,worker,label\nt1,ann,dog\nt1,bob,dog\nt2,ann,bird\n"
    with instance(pets.broker, pets.prefix, **settings) as running:
        running.wait_ready()
        arguments = ("replay", "-", "--classes", pets.classes, "--wait", "--timeout", "60")
        ended = sbic(pets, *arguments, stdin=labels)
        assert ended.returncode == 0, ended.stderr
        posteriors = sbic(pets, "export", "posteriors").stdout.splitlines()
        assert running.terminate() == 0  # it has published all workers then
    assert posteriors[0].startswith("task,prediction,confidence,p:cat,p:dog,p:bird,labels,status")
    first, second = (line.split(",") for line in posteriors[1:])
    assert (first[:2], first[6:8]) == (["t1", "dog"], ["2", "open"])
    assert (second[:2], second[6]) == (["t2", "bird"], "1")
    assert sum(map(float, first[3:6])) == pytest.approx(1)
    workers = sbic(pets, "export", "workers").stdout.splitlines()
    assert workers[0].endswith(",theta,habit:cat,habit:dog,habit:bird")
    assert [line.split(",")[::4][:2] for line in workers[1:]] == [["ann", "2"], ["bob", "1"]]
    exported = sbic(pets, "export", "labels").stdout
    assert sorted(exported.splitlines()) == sorted(labels.splitlines())


def test_an_empty_topic_is_a_header(project: Settings, tmp_path: Path) -> None:
    assert sbic(project, "export", "posteriors").stdout == HEADER
    target = tmp_path / "posteriors.parquet"
    assert sbic(project, "export", "posteriors", "-o", str(target)).returncode == 0
    assert read_parquet(target).schema.names == HEADER.strip().split(",")


def rows_of(parquet: Path) -> list[dict[str, object]]:
    """The rows, without what is missing."""
    table = read_parquet(parquet).read_all()
    columns = [table[name].to_pylist() for name in table.column_names]
    return [
        {name: v for name, v in zip(table.column_names, row, strict=True) if v is not None}
        for row in zip(*columns, strict=True)
    ]


async def test_parquet_has_every_field_of_the_records(project: Settings, tmp_path: Path) -> None:
    _, value = posterior("a", 0.25, 2)
    gold = {**loads(value), "task": "ü", "gold": True, "evidence": -0.5, "prior": 0.25}
    gold |= {"status": "closed", "reason": "request", "reopened": True}
    records = [(b"a", value), ("ü".encode(), dumps(gold))]
    await write(project, Topics(project).posteriors.name, records)
    ann = loads(worker(accuracy=0.75, labels=1, correct=1.0))
    ann |= {"theta": 0.5, "habits": {"-1": 0.125, "1": 0.875}}
    await write(project, Topics(project).workers.name, [(b"ann", dumps(ann))])
    await write(project, Topics(project).labels.name, [(b"ann", encode_label("t1", "ann", -1))])
    found = {}
    for what in ("posteriors", "workers", "labels"):
        target = tmp_path / f"{what}.parquet"
        ended = sbic(project, "export", what, "-o", str(target))
        assert (ended.returncode, ended.stderr) == (0, "")
        found[what] = rows_of(target)
        header = sbic(project, "export", what).stdout.splitlines()[0].split(",")
        assert read_parquet(target).schema.names == header
    for row in found["posteriors"]:
        row["sources"] = loads(str(row["sources"]))
    assert found["posteriors"] == [loads(value), gold]
    (of_ann,) = found["workers"]
    assert [of_ann.pop(f"interval_{end}") for end in ("low", "high")] == ann.pop("interval")
    assert {name: of_ann.pop(f"habit:{name}") for name in ("-1", "1")} == ann.pop("habits")
    assert of_ann == ann
    assert found["labels"] == [{"task": "t1", "worker": "ann", "label": -1}]


def test_a_long_table_is_in_row_groups(tmp_path: Path) -> None:
    rows = ((f"t{number}", number, number / 2) for number in range(250_000))
    target = tmp_path / "long.parquet"
    write_parts_atomically(target, parquet_parts(("task", "n", "half"), (str, int, float), rows))
    batches = list(read_parquet(target, batch_size=1_000_000))
    assert sum(batch.num_rows for batch in batches) == 250_000
    last = read_parquet(target).read_all().slice(249_999)
    assert [last[name][0].as_py() for name in last.column_names] == ["t249999", 249_999, 124_999.5]


def test_without_the_extra_one_line_says_how_to_get_it(
    project: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbic.files.writing.find_spec", lambda _: None)
    arguments = ["export", "workers", "--format", "parquet", "--prefix", project.prefix]
    ended = CliRunner().invoke(command, [*arguments, "--broker", project.broker])
    assert ended.exit_code == 2
    assert "pip install 'sbic[parquet]'" in ended.output


def test_a_file_that_cannot_be_written_is_named(project: Settings, tmp_path: Path) -> None:
    ended = sbic(project, "export", "workers", "-o", str(tmp_path / "no" / "workers.csv"))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "does not exist" in line


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
async def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_the_data(
    project: Settings, file_format: str
) -> None:
    task = "a\x7f\u202e"
    await write(project, Topics(project).posteriors.name, [posterior(task, 0.5, 1)])
    arguments = ["export", "posteriors", "--format", file_format]
    assert task in sbic(project, *arguments).stdout
    ours, its = pty.openpty()
    command_line = [sys.executable, "-m", "sbic", *arguments]
    ended = await asyncio.to_thread(
        subprocess.run, command_line, env=environment(project), stdout=its, timeout=60
    )
    seen = os.read(ours, 1 << 16).decode()
    os.close(its)
    os.close(ours)
    assert ended.returncode == 0
    assert "a\\x7f\\u202e" in seen
    assert "\x7f" not in seen
    assert len(seen.splitlines()) == (2 if file_format == "csv" else 1)


async def test_a_file_for_excel_has_no_formula_and_the_separator_of_the_locale(
    project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\ttab", "\rreturn", "Müller"]
    records = [posterior(task, -0.5, 1) for task in ids]
    await write(project, Topics(project).posteriors.name, records)
    target = tmp_path / "posteriors.csv"

    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    ended = sbic(project, "export", "posteriors", "--excel", "-o", str(target))
    assert (ended.returncode, ended.stderr) == (0, "")
    content = target.read_bytes()
    assert content.startswith(b"\xef\xbb\xbftask;log_odds;probability;")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert {row["task"] for row in rows} == {"Müller"} | {f"'{task}" for task in ids[:-1]}
    assert {row["log_odds"] for row in rows} == {"-0,5"}, "a negative number stays a number"

    for language, first in (("C", "task,log_odds"), ("en_US", "task,log_odds")):
        monkeypatch.setenv("LC_ALL", language)
        ended = sbic(project, "export", "posteriors", "--excel")
        assert ended.stdout.lstrip("\ufeff").startswith(first)
    ended = sbic(project, "export", "posteriors", "--excel", "--separator", "semicolon")
    assert ended.stdout.lstrip("\ufeff").startswith("task;log_odds")
    assert "\n=cmd" in sbic(project, "export", "posteriors").stdout, "plain CSV is exact"


@pytest.mark.parametrize("options", [["--separator", "comma"], ["--excel", "--format", "jsonl"]])
def test_options_for_excel_that_do_not_go_together_are_refused(options: list[str]) -> None:
    ended = CliRunner().invoke(command, ["export", "labels", *options])
    assert ended.exit_code == 2
    assert "--excel" in ended.output
