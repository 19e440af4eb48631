"""`sbic project copy`: all labels and tasks in their order, under other names of classes."""

import csv
from dataclasses import replace

import pytest

from sbic.commands import project_copy
from sbic.kafka.writer import writing
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import read_project
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import standing_labels
from sbic.wire.labels import encode_label
from sbic.wire.partitions import Row, partition_of
from tests.instances import instance
from tests.projects import PARTITIONS, made, new_project, records_of, sbic, write

LABELS = "task,worker,label\n" + "".join(
    f"t{number % 7},w{number % 11},{('Katze', 'Hund', 'Kater')[number % 3]}\n"
    for number in range(500)
)
MAP = ("--label-map", "Katze=cat", "--label-map", "Kater=cat", "--label-map", "Hund=dog")


@pytest.fixture
def old(broker: EmbeddedBroker) -> Settings:
    """A project with labels, tasks and a record that is no label."""
    settings = made(new_project(broker, classes="Katze,Hund,Kater", repeats="last"))
    assert sbic(settings, "replay", "-", stdin=LABELS).returncode == 0
    tasks = "task,gold,p:Katze,p:Hund,p:Kater\nt0,Kater,,,\nt1,,0.5,0.25,0.25\n"
    assert sbic(settings, "tasks", "import", "-", stdin=tasks).returncode == 0
    return settings


def copied(old: Settings, new: Settings, *arguments: str) -> str:
    ended = sbic(old, "project", "copy", old.prefix, new.prefix, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def rows_of(settings: Settings) -> list[dict[str, str]]:
    return list(csv.DictReader(sbic(settings, "export", "posteriors").stdout.splitlines()))


async def test_a_copy_has_all_labels_of_each_worker_in_their_order_and_the_settings(
    old: Settings, broker: EmbeddedBroker
) -> None:
    await write(old, Topics(old).labels.name, [(b"w1", b"no JSON"), (None, b"no key")])
    roster = Topics(old).roster.name
    await write(old, roster, [(b"w1", b'{"worker":"w1","blocked":true}'), (b"w2", None)])
    new = new_project(broker)
    assert copied(old, new).startswith(f"copied: 506 records of {old.prefix} to {new.prefix};")
    for topic in ("labels", "tasks", "roster"):
        there = await records_of(old, f"{old.prefix}.{topic}")
        here = await records_of(new, f"{new.prefix}.{topic}")
        for partition in range(3):
            assert [
                (each.key, each.value, each.timestamp)
                for each in here
                if each.partition == partition
            ] == [
                (each.key, each.value, each.timestamp)
                for each in there
                if each.partition == partition
            ]
    revisions = [await read_project(each) for each in (old, new)]
    assert revisions[0]
    assert revisions[1]
    assert revisions[1].settings == revisions[0].settings
    assert revisions[1].state == "ready"


async def test_classes_are_renamed_and_joined_and_counted(
    old: Settings, broker: EmbeddedBroker
) -> None:
    new = new_project(broker)
    copied(old, new, *MAP)
    names = {"Katze": "cat", "Kater": "cat", "Hund": "dog"}
    expected = {(t, w, names[str(label)]) for t, w, label in await standing_labels(old)}
    renamed = replace(new, classes="cat,dog", repeats="last")
    assert set(await standing_labels(renamed)) == expected
    with instance(broker.url, new.prefix) as one:
        one.wait_ready()
        one.metrics_with('sbic_labels_total{outcome="counted"}', 77)
        rows = {row["task"]: row for row in rows_of(new)}
    assert (rows["t0"]["gold"], rows["t0"]["prediction"]) == ("true", "cat")
    assert (rows["t1"]["prior:cat"], rows["t1"]["prior:dog"]) == ("0.75", "0.25")


async def test_an_unfinished_copy_is_completed_and_any_other_project_refused(
    old: Settings, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = new_project(broker)

    async def interrupted(*_: object) -> dict[str, str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(project_copy, "topic_ids", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await project_copy.copy_project(old, new, {})
    waiting = sbic(new, "replay", "-", stdin="task,worker,label\nt1,ann,Hund\n")
    assert waiting.returncode == 1
    assert f"complete it with: sbic project copy OLD {new.prefix}" in waiting.stderr
    for change in ("recount", "reset"):
        refused = sbic(new, "project", change, "--yes")
        assert (refused.returncode, "is copying" in refused.stderr) == (1, True)
    assert copied(old, new).startswith("copied: 502 records")
    assert len(await records_of(new, Topics(new).labels.name)) == 500
    again = sbic(old, "project", "copy", old.prefix, new.prefix)
    assert again.returncode == 1
    assert f"the project {new.prefix} exists, and nothing was changed" in again.stderr


def misplaced(settings: Settings, worker: str) -> int:
    """A partition of labels that is not the worker's."""
    return (partition_of(worker.encode(), settings.partitions) + 1) % settings.partitions


async def put(settings: Settings, partition: int, *rows: Row) -> None:
    """Write labels to a partition, whatever their key."""
    topic = Topics(settings).labels
    async with writing(settings, topic) as writer:
        await writer.send(topic.name, rows, partition)


async def predictions(settings: Settings, labels: int) -> dict[str, object]:
    """What the posteriors say once this many labels are counted or replaced."""
    with instance(settings.broker, settings.prefix) as one:
        one.wait_ready()
        one.metrics_with('sbic_labels_total{outcome="counted"}', labels)
        assert one.terminate() == 0
    return {row["task"]: row["prediction"] for row in rows_of(settings)}


@pytest.fixture(params=["last", "first"])
def pets_by_repeats(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Settings:
    """A project with nothing in its topics, under either rule for repeats."""
    return made(new_project(broker, classes="cat,dog", repeats=request.param))


async def test_what_was_forwarded_is_copied_once_and_a_later_answer_still_wins(
    broker: EmbeddedBroker, pets_by_repeats: Settings
) -> None:
    """The copy has another key: it takes no record for one that was forwarded."""
    old, replaces = pets_by_repeats, pets_by_repeats.repeats == "last"
    home, elsewhere = partition_of(b"ann", PARTITIONS), misplaced(old, "ann")
    await put(old, elsewhere, Row(None, encode_label("t1", "ann", "cat"), headers=[("x", b"y")]))
    assert await predictions(old, 1) == {"t1": "cat"}
    found = await records_of(old, Topics(old).labels.name)
    [forwarded] = [each for each in found if each.partition == home]
    again = Row(forwarded.key, forwarded.value, headers=list(forwarded.headers))
    await put(old, home, Row(b"ann", encode_label("t1", "ann", "dog")), again)  # after a crash
    await put(old, elsewhere, Row(b"zoe", encode_label("t2", "ann", "dog")))  # not forwarded yet
    new = new_project(broker)
    said = copied(old, new)
    there = await predictions(old, 2 if replaces else 1)
    assert there == {"t1": "dog" if replaces else "cat", "t2": "dog"}
    assert await predictions(new, 3 if replaces else 2) == there
    assert f"{2 if replaces else 1} records were in the wrong partition" in said


async def test_what_cannot_be_written_again_is_renamed_without_what_means_nothing(
    old: Settings, broker: EmbeddedBroker
) -> None:
    deep = b"[" * 1000 + b"]" * 1000
    value = b'{"task":"new","worker":"zoe","label":"Katze","note":%s}' % deep
    await put(old, partition_of(b"zoe", PARTITIONS), Row(b"zoe", value), Row(None, None))
    new = new_project(broker)
    said = copied(old, new, *MAP)
    assert said.startswith("1 records have lost the fields that mean nothing to sbic: ")
    assert "copied: 504 records" in said
    renamed = replace(new, classes="cat,dog", repeats="last")
    assert ("new", "zoe", "cat") in set(await standing_labels(renamed))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--label-map", "Katze=a,b"], "the class 'a,b' must not contain a comma"),
        (["--label-map", "Maus=mouse"], "'Maus' is not one of the classes"),
        (["--label-map", "Katze"], "'Katze' is not OLD=NEW"),
        (["--label-map", "Katze=a", "--label-map", "Hund=a", "--label-map", "Kater=a"], "two"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(
    old: Settings, broker: EmbeddedBroker, arguments: list[str], problem: str
) -> None:
    new = new_project(broker)
    ended = sbic(old, "project", "copy", old.prefix, new.prefix, *arguments)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line
    assert sbic(new, "project", "show").returncode == 1
