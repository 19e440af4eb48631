"""A broker that is paused, whose disk is full, or that goes away while an instance recovers."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from tests.agents.crowd import crowd
from tests.agents.flow import flowing, until_true
from tests.agents.kafka import project
from tests.agents.recount import agree_with_a_recount
from tests.brokers import kill, needs_proc, paused
from tests.instances import instance

PAUSE_SECONDS = 13.0  # longer than Kafka waits for a heartbeat, and than a connection is idle
DISK_MB = 40

pytestmark = pytest.mark.broker  # each test starts and stops its own

WAITS_BEFORE_IT_ASKS_WHAT_WAS_COMMITTED = """
import asyncio, os, sbic.runtime.agents as continuity

ask = continuity.committed_offsets

async def ask_when_told(*args):
    print("about to ask", flush=True)
    while not os.path.exists({told!r}):
        await asyncio.sleep(0.05)
    return await ask(*args)

continuity.committed_offsets = ask_when_told
"""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="aiokafka")  # it complains all the time, rightly


@needs_proc
@pytest.mark.long
async def test_a_broker_that_is_paused_holds_everything_up_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    triples = crowd(labels=20_000, tasks=500, workers=100, seed=9)
    with EmbeddedBroker(port=free_port(), data_dir=tmp_path) as broker:
        here = await project(broker, partitions=4)
        env = {"SBIC_PARTITIONS": "4"}
        prefix = here.settings.prefix
        with (
            instance(broker.url, prefix, **env) as first,
            instance(broker.url, prefix, **env) as second,
        ):
            first.wait_ready()
            second.wait_ready()
            async with flowing(here, triples) as flow:
                await flow.goes_on()
                with paused(broker):
                    await asyncio.sleep(PAUSE_SECONDS)  # what is tested is what comes after it
                await flow.goes_on()
            await here.until_counted(len(flow.sent))
            await asyncio.to_thread(first.wait_ready)
            await asyncio.to_thread(second.wait_ready)
            assert first.terminate() == second.terminate() == 0
        await agree_with_a_recount(here, flow.sent)


@needs_proc
async def test_an_instance_that_recovers_waits_for_a_broker_that_goes_away(tmp_path: Path) -> None:
    triples = crowd(labels=300, tasks=50, workers=20, seed=10)
    told = tmp_path / "told"
    change = WAITS_BEFORE_IT_ASKS_WHAT_WAS_COMMITTED.format(told=str(told))
    with EmbeddedBroker(port=free_port(), data_dir=tmp_path / "kafka") as broker:
        here = await project(broker)
        await here.send(triples)
        with instance(broker.url, here.settings.prefix, change) as running:
            await until_true(lambda: "about to ask" in running.log())
            await asyncio.to_thread(kill, broker)
            told.touch()
            await until_true(lambda: running.log().count("about to ask") > 1)  # it asks again
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(running.wait_ready)
            await here.until_counted(len(triples))
            assert running.terminate() == 0


@contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a small separate disk on the folder."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs to mount a small disk: run as root, with the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write a file that leaves nothing of the disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(1 << 16))
            except OSError:
                return ballast


@needs_proc
async def test_a_broker_with_a_full_disk_ends_and_goes_on_where_it_was_once_there_is_room(
    tmp_path: Path,
) -> None:
    triples = crowd(labels=20_000, tasks=500, workers=100, seed=11)
    folder = tmp_path / "disk"
    with (
        disk(folder, DISK_MB),
        EmbeddedBroker(port=free_port(), data_dir=folder / "kafka") as broker,
    ):
        here = await project(broker, partitions=2)
        with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="2") as running:
            running.wait_ready()
            async with flowing(here, triples) as flow:
                await flow.goes_on()
                ballast = fill(folder)
                assert await asyncio.to_thread(broker.wait, 60) is not None  # it ends by itself
                broker.stop()
                ballast.unlink()
                await asyncio.to_thread(broker.start)
                await flow.goes_on()
            await here.until_counted(len(flow.sent))
            assert running.terminate() == 0
        await agree_with_a_recount(here, flow.sent)
