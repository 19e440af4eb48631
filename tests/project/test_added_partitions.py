"""Partitions that somebody adds: everything says so and what to do, and no label is lost."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from orjson import dumps, loads

from sbic.kafka.admin import alter_topics, connected_admin, extents, topic_overrides
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import read_project
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import standing_labels
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.gateway.client import running_gateway
from tests.instances import instance
from tests.projects import environment, made, new_project, records_of, sbic, write

ROWS = sorted({(f"t{i % 40}", f"w{i // 40}") for i in range(400)})
RECORDS = [(worker.encode(), encode_label(task, worker, 1)) for task, worker in ROWS]


async def add_partitions(settings: Settings, topic: str, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_partitions({topic: NewPartitions(count)})
    finally:
        await admin.close()
    # Kafka tells clients of the new partitions a moment later.
    while len(await extents(settings, [topic])) < count:  # noqa: ASYNC110  # no event to await
        await asyncio.sleep(0.05)


def until(is_so: Callable[[], bool], deadline: float) -> None:
    last = time.monotonic() + deadline
    while not is_so():
        assert time.monotonic() < last
        time.sleep(0.05)


def line_of(settings: Settings) -> str:
    topic = Topics(settings).labels.name
    return f"{topic} has 5 partitions, the project {settings.prefix} has 3: somebody has added"


def test_labels_in_added_partitions_stop_an_instance_and_a_recount_counts_them(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = made(new_project(broker, repeats="last"))
    topic = Topics(settings).labels.name
    asyncio.run(write(settings, topic, RECORDS[:200]))
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        asyncio.run(add_partitions(settings, topic, 5))
        asyncio.run(write(settings, topic, RECORDS[200:]))
        assert running.process.wait(30) == 1, running.log()
        assert line_of(settings) in running.log()
        assert f"sbic project recount --prefix {settings.prefix}" in running.log()
        assert "Traceback" not in running.log()
    for command in ("run", "topics", "status", "export posteriors"):
        ended = sbic(settings, *command.split())
        assert ended.returncode == 1, (command, ended)
        assert line_of(settings) in ended.stderr, command
    saved = sbic(settings, "export", "labels", "-o", str(tmp_path / "labels.csv"))
    assert saved.returncode == 0, saved.stderr
    written = (tmp_path / "labels.csv").read_text().splitlines()
    assert {tuple(row.split(",")[:2]) for row in written[1:]} == set(ROWS)
    recounted = sbic(settings, "project", "recount")
    assert recounted.returncode == 0, recounted.stderr
    assert f"records of {topic} to the partitions of the project" in recounted.stderr
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        running.metrics_with('sbic_labels_total{outcome="counted"}', len(ROWS))
        assert "expired" not in running.log()
        sent = sbic(settings, "replay", "-", stdin="task,worker,label\nt1,new,1\n")
        assert sent.returncode == 0, sent.stderr
        running.metrics_with('sbic_labels_total{outcome="counted"}', len(ROWS) + 1)
        assert running.terminate() == 0
    assert len({(t, w) for t, w, _ in asyncio.run(standing_labels(settings))}) == len(ROWS) + 1
    assert sbic(settings, "status").returncode == 0


KILLED = """
import asyncio, os
import sbic.commands.main, sbic.project.added as added, sbic.project.recreation as recreation
recreation.EMPTY_SECONDS = 0.2
async def die(*arguments):
    os._exit(9)
put, count = added._put, 0
async def some(*arguments):
    global count
    count = number = count + 1
    if number <= 40:
        await put(*arguments)
    if number == 40:
        os._exit(9)
    await asyncio.sleep(60 * (number > 40))
if "{step}" == "_put":
    added._put = some
else:
    added.{step} = die
sbic.commands.main.main()
"""


def test_every_record_moves_once_though_the_command_is_killed_on_the_way(
    broker: EmbeddedBroker,
) -> None:
    settings = made(new_project(broker))
    topics = Topics(settings)
    tasks = [(f"t{i}".encode(), dumps({"task": f"t{i}", "gold": 1})) for i in range(40)]
    for topic, records in ((topics.labels, RECORDS), (topics.tasks, tasks)):
        asyncio.run(add_partitions(settings, topic.name, 5))
        asyncio.run(write(settings, topic.name, records))
    for step in ("_put", "_delete_moved", "delete_records"):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED.format(step=step), "project", "recount"],
            env=environment(settings),
            capture_output=True,
            timeout=30,
        )
        assert ended.returncode == 9, ended.stderr
    refused = sbic(settings, "project", "set", "alpha=3")
    assert f"sbic project recount --prefix {settings.prefix}" in refused.stderr
    done = sbic(settings, "project", "recount")
    assert done.returncode == 0, done.stderr
    for topic, records in ((topics.labels, RECORDS), (topics.tasks, tasks)):
        found = asyncio.run(records_of(settings, topic.name))
        assert {record.partition for record in found} <= {0, 1, 2}
        assert sorted((record.key, record.value) for record in found) == sorted(records)
    labels = asyncio.run(records_of(settings, topics.labels.name))
    for worker in {record.key for record in labels}:
        assert [record.value for record in labels if record.key == worker] == [
            value for key, value in RECORDS if key == worker
        ]
    revision = asyncio.run(read_project(settings))
    assert revision is not None
    assert revision.state == "ready"


async def test_a_gateway_says_so_and_serves_the_project_again_after_a_recount(
    broker: EmbeddedBroker,
) -> None:
    settings = await asyncio.to_thread(made, new_project(broker))
    async with running_gateway([settings]) as client:
        await client.until_ready()
        await add_partitions(settings, Topics(settings).labels.name, 5)
        await write(settings, Topics(settings).labels.name, RECORDS)
        told = await client.until("/tasks", lambda answer: answer.status == 503)
        assert line_of(settings) in told.json["error"]
        recounted = await asyncio.to_thread(sbic, settings, "project", "recount")
        assert recounted.returncode == 0, recounted.stderr
        await client.until_ready()
        label = {"task": "t1", "worker": "new", "label": 1}
        assert (await client.post("/labels", label)).status == 200


def test_partitions_added_to_a_topic_that_a_recount_recreates_are_gone_after_it(
    broker: EmbeddedBroker,
) -> None:
    settings = made(new_project(broker))
    asyncio.run(add_partitions(settings, Topics(settings).posteriors.name, 5))
    refused = sbic(settings, "run")
    assert refused.returncode == 1
    assert "posteriors has 5 partitions" in refused.stderr
    assert f"sbic project recount --prefix {settings.prefix}" in refused.stderr
    assert sbic(settings, "project", "recount").returncode == 0
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        assert running.terminate() == 0


@pytest.mark.parametrize(
    "reading",
    [("watch",), ("status", "--watch"), ("sink", "sqlite:crowd.db")],
    ids=lambda each: each[0],
)
def test_a_command_that_is_reading_says_so_as_well(
    broker: EmbeddedBroker, tmp_path: Path, reading: tuple[str, ...]
) -> None:
    """It would never read what is in there."""
    settings = made(new_project(broker))
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sbic", *reading],
            cwd=tmp_path,
            env=environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        until(lambda: reading == ("watch",) or b" " in log.read_bytes(), deadline=30)
        asyncio.run(add_partitions(settings, Topics(settings).posteriors.name, 5))
        line = f"posteriors has 5 partitions, the project {settings.prefix} has 3".encode()
        until(lambda: line in log.read_bytes(), deadline=30)
        if reading[0] == "sink":  # waits for the recount
            assert process.poll() is None
        else:
            assert process.wait(30) == 1
    finally:
        process.kill()
        process.wait()


# Labels are kept: whatever removes them is warned of, in the log, the status and the metrics.


async def test_retention_set_on_the_labels_and_labels_that_expire_are_warned_of_everywhere(
    broker: EmbeddedBroker,
) -> None:
    here = new_project(broker)
    name = Topics(here).labels.name
    part = TopicPartition(name, partition_of(b"ann", here.partitions))

    def status() -> tuple[list[str], str]:
        as_json, screen = sbic(here, "status", "--json"), sbic(here, "status")
        assert as_json.returncode == 0, as_json.stderr
        return loads(as_json.stdout)["warnings"], screen.stdout

    with instance(broker.url, here.prefix, SBIC_PARTITIONS=str(here.partitions)) as running:
        await asyncio.to_thread(running.wait_ready)
        labels = "task,worker,label\n" + "".join(f"t{task},ann,1\n" for task in range(50))
        sent = sbic(here, "replay", "-", "--wait", stdin=labels)
        assert sent.returncode == 0, sent.stderr
        assert status()[0] == []
        assert running.metrics()["sbic_labels_retention_wrong"] == 0
        async with connected_admin(here) as admin:
            hour = {**await topic_overrides(admin, name), "retention.ms": "3600000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, hour)])
            await admin.delete_records({part: RecordsToDelete(20)})
        await asyncio.to_thread(running.metrics_with, "sbic_labels_retention_wrong", 1)
        await asyncio.to_thread(running.metrics_with, "sbic_expired_labels", 20)
        wrong = f"{name} has retention.ms=3600000 and needs -1"
        expired = f"20 labels have expired from {name}: a recount cannot count them again"
        assert wrong in running.log()
        assert expired in running.log()
        warnings, screen = status()
        assert warnings[0].startswith(wrong)
        assert warnings[1] == expired
        assert "20 labels have expired from" in " ".join(screen.split())
        assert running.terminate() == 0
    with instance(broker.url, here.prefix) as again:  # it says so at start, too, and runs
        await asyncio.to_thread(again.wait_ready)
        assert expired in again.log()
        assert wrong in again.log()
        more = sbic(here, "replay", "-", "--wait", stdin="task,worker,label\nmore,ann,1\n")
        assert more.returncode == 0, more.stderr + again.log()
        await alter_topics(here)
        assert again.terminate() == 0
    with instance(broker.url, here.prefix) as last:
        await asyncio.to_thread(last.wait_ready)
        assert expired in last.log()
        assert wrong not in last.log()
