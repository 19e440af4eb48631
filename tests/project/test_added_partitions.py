"""Partitions that somebody adds: everything says so and what to do, and no label is lost."""

import asyncio
from dataclasses import replace
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from tests.instances import instance
from tests.projects import made, new_project, sbic, write


async def add_partitions(settings: Settings, topic: str, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_partitions({topic: NewPartitions(count)})
    finally:
        await admin.close()


def test_added_partitions_stop_an_instance_and_every_label_reaches_another_project(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = made(new_project(broker))
    topic = Topics(settings).labels.name
    rows = {(f"t{i % 40}", f"w{i // 40}") for i in range(400)}
    records = [(worker.encode(), encode_label(task, worker, 1)) for task, worker in sorted(rows)]
    asyncio.run(write(settings, topic, records[:200]))
    line = f"{topic} has 5 partitions, the project {settings.prefix} has 3: somebody has added"
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        asyncio.run(add_partitions(settings, topic, 5))
        assert running.process.wait(30) == 1, running.log()
        assert line in running.log()
        assert "Traceback" not in running.log()
    asyncio.run(write(settings, topic, records[200:]))
    file = tmp_path / "labels.csv"
    for command in ("run", "topics", "project recount", "status", "export posteriors"):
        ended = sbic(settings, *command.split())
        assert ended.returncode == 1, (command, ended)
        assert line in ended.stderr, command
    saved = sbic(settings, "export", "labels", "-o", str(file))
    assert saved.returncode == 0, saved.stderr
    found = {tuple(row.split(",")[:2]) for row in file.read_text().splitlines()[1:]}
    assert found == rows
    other = made(replace(new_project(broker), partitions=5))
    ended = sbic(other, "replay", str(file))
    assert ended.returncode == 0, ended.stderr


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
