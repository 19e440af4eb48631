"""Shared by tests of commands: new projects on the broker, and `sbic` as a process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from tests.agents.follower import following

PARTITIONS = 3
Row = tuple[str, str, int | str]


def new_project(broker: EmbeddedBroker, **settings: object) -> Settings:
    prefix = f"tools-{uuid4().hex[:8]}"
    return replace(Settings(broker=broker.url, prefix=prefix, partitions=PARTITIONS), **settings)  # type: ignore[arg-type]


def made(settings: Settings) -> Settings:
    """The project with these settings."""
    return asyncio.run(open_project(Given.of(settings))).settings


def environment(settings: Settings) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    return inherited | {"SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}


def sbic(
    settings: Settings, *arguments: str, stdin: str = "", timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sbic", *arguments],
        env=environment(settings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def write_labels(path: Path, rows: Iterable[Row]) -> Path:
    lines = (f"{task},{worker},{label}\n" for task, worker, label in rows)
    path.write_text("task,worker,label\n" + "".join(lines))
    return path


async def commit_as_sink(
    settings: Settings, name: str, offsets: Mapping[TopicPartition, int], said: str
) -> None:
    """Commit offsets as a sink of this name does, with anything at all as its metadata."""
    group = f"{settings.prefix}.sink.{name}"
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers, group_id=group, enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign(list(offsets))
        await consumer.commit({tp: (offset, said) for tp, offset in offsets.items()})
    finally:
        await consumer.stop()


async def records_of(settings: Settings, topic: str) -> list[ConsumerRecord]:
    """All records that a topic has now, each partition's in order."""
    async with following(settings, topic) as follower:
        return await follower.new_records()


async def write(
    settings: Settings, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]
) -> None:
    """Publish keys and values to a topic, in order."""
    client = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await client.start()
    try:
        for key, value in records:
            await client.send_and_wait(topic, key=key, value=value)
    finally:
        await client.stop()
