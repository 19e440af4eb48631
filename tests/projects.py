"""What the tests of the tools share: a project of one's own on the broker, and the command."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from pipeline.local.embedded import EmbeddedBroker
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings

PARTITIONS = 3
Row = tuple[str, str, int | str]


def new_project(broker: EmbeddedBroker, **settings: str) -> Settings:
    prefix = f"tools-{uuid4().hex[:8]}"
    return replace(Settings(broker=broker.url, prefix=prefix, partitions=PARTITIONS), **settings)  # type: ignore[arg-type]


def made(settings: Settings) -> Settings:
    """The project with these settings."""
    return asyncio.run(open_project(Given.of(settings))).settings


def environment(settings: Settings) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    return inherited | {"SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}


def sbic(
    settings: Settings, *arguments: str, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        env=environment(settings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def write_labels(path: Path, rows: Iterable[Row]) -> Path:
    lines = (f"{task},{worker},{label}\n" for task, worker, label in rows)
    path.write_text("task,worker,label\n" + "".join(lines))
    return path


@asynccontextmanager
async def consumer(settings: Settings, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    client = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers, auto_offset_reset="earliest"
    )
    await client.start()
    try:
        client.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        yield client
    finally:
        await client.stop()


async def records_of(settings: Settings, topic: str) -> list[ConsumerRecord]:
    """All that a topic has now, each partition's in order."""
    records = []
    async with consumer(settings, topic) as client:
        partitions = client.assignment()
        ends = await client.end_offsets(partitions)
        for partition in partitions:
            while await client.position(partition) < ends[partition]:
                for fetched in (await client.getmany(timeout_ms=1000)).values():
                    records += fetched
    return records


async def write(
    settings: Settings, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]
) -> None:
    """Keys and values onto a topic, in order."""
    client = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await client.start()
    try:
        for key, value in records:
            await client.send_and_wait(topic, key=key, value=value)
    finally:
        await client.stop()
