"""Topics are created as described, all or none."""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sbic.kafka.admin import check_topics, ensure_topics
from sbic.kafka.errors import KafkaUnreachable, Mismatch, Refused, WrongTopics
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics


@pytest.fixture
def settings(broker: EmbeddedBroker) -> Settings:
    return Settings(broker=broker.url, prefix=f"topics-{uuid4().hex[:8]}", partitions=3)


async def existing(settings: Settings) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        names: list[str] = await admin.list_topics()
        return {name for name in names if name.startswith(settings.prefix)}
    finally:
        await admin.close()


async def create(settings: Settings, name: str, partitions: int, config: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
        async with asyncio.timeout(60):
            while True:
                if name in await admin.list_topics():
                    return
                await asyncio.sleep(0.02)
    finally:
        await admin.close()


def sbic(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sbic", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


async def test_what_is_missing_is_created_and_then_found_right(settings: Settings) -> None:
    names = {topic.name for topic in Topics(settings)}
    assert {topic.name for topic in await check_topics(settings)} == names
    assert await existing(settings) == set()
    assert {topic.name for topic in await ensure_topics(settings)} == names
    assert await existing(settings) == names
    assert await ensure_topics(settings) == []
    assert await check_topics(settings) == []


async def test_only_what_is_missing_is_created(settings: Settings) -> None:
    labels = Topics(settings).labels
    await create(settings, labels.name, labels.partitions, dict(labels.config))
    created = await ensure_topics(settings)
    assert len(created) == len(list(Topics(settings))) - 1
    assert labels not in created


async def test_a_mismatch_is_named_and_nothing_is_created(settings: Settings) -> None:
    topics = Topics(settings)
    await create(settings, topics.labels.name, 2, dict(topics.labels.config))
    kept_for_days = {**topics.posteriors.config, "cleanup.policy": "delete"}
    await create(settings, topics.posteriors.name, 3, kept_for_days)
    with pytest.raises(WrongTopics) as wrong:
        await ensure_topics(settings)
    assert wrong.value.mismatches == [
        Mismatch(topics.labels.name, "2 partitions", "3"),
        Mismatch(topics.posteriors.name, "cleanup.policy=delete", "compact"),
    ]
    assert await existing(settings) == {topics.labels.name, topics.posteriors.name}


async def test_retention_is_checked_and_a_setting_makes_it_right(settings: Settings) -> None:
    await ensure_topics(replace(settings, labels_retention_hours=48, retention_hours=1))
    with pytest.raises(WrongTopics, match=r"retention.ms=172800000 and needs -1"):
        await ensure_topics(settings)
    again = replace(settings, labels_retention_hours=48, retention_hours=1)
    assert await ensure_topics(again) == []


async def test_more_copies_than_there_are_brokers_are_refused_before_anything_is_created(
    settings: Settings,
) -> None:
    with pytest.raises(Refused, match="replication factor"):
        await ensure_topics(replace(settings, replication=3))
    assert await existing(settings) == set()


async def test_instances_that_start_together_both_find_the_topics(settings: Settings) -> None:
    created = await asyncio.gather(*(ensure_topics(settings) for _ in range(3)))
    assert await existing(settings) == {topic.name for topic in Topics(settings)}
    assert any(created)


async def test_without_a_broker_the_address_is_named(unused_port: int) -> None:
    with pytest.raises(KafkaUnreachable, match=f"127.0.0.1:{unused_port}"):
        await ensure_topics(Settings(broker=f"kafka://127.0.0.1:{unused_port}"))


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbic.kafka.connect.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KafkaUnreachable, match=address):
            await ensure_topics(Settings(broker=address))


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_the_command_creates_then_confirms_then_names_a_mismatch(settings: Settings) -> None:
    environment = {"SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}
    first = sbic("topics", "--partitions", "3", **environment)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.count("created") == len(list(Topics(settings)))
    second = sbic("topics", SBIC_PARTITIONS="3", **environment)
    assert (second.returncode, second.stderr) == (0, "")
    assert "created" not in second.stdout
    third = sbic("topics", "--partitions", "4", **environment)
    assert third.returncode == 1
    assert third.stdout == ""
    lines = third.stderr.splitlines()
    assert lines[0].startswith(f"partitions is 3 in the project {settings.prefix}, not 4")
    assert "the project was not changed" in lines[-1]


def test_the_command_without_a_broker_says_so_in_one_line(unused_port: int) -> None:
    result = sbic("topics", "--broker", f"kafka://127.0.0.1:{unused_port}")
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert f"127.0.0.1:{unused_port}" in line
    assert "sbic broker" in line


def test_a_bad_setting_is_named_with_its_flag_and_variable() -> None:
    result = sbic("topics", SBIC_PARTITIONS="many")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "--partitions" in line
    assert "SBIC_PARTITIONS" in line
    assert "'many'" in line


@pytest.mark.parametrize(("replication", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_a_write_is_safe_and_one_broker_may_be_away(replication: int, in_sync: str) -> None:
    for topic in Topics(Settings(replication=replication)):
        assert topic.config["min.insync.replicas"] == in_sync


def test_whatever_fits_into_labels_fits_into_the_dead_letters() -> None:
    topics = Topics(Settings())
    labels = int(topics.labels.config["max.message.bytes"])
    assert int(topics.dead_letters.config["max.message.bytes"]) >= labels + 100_000
