"""How an instance ends: in good order when asked to, and at once when something is wrong."""

import asyncio
import os
import subprocess
import sys

from pipeline.broker.embedded import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import Project, project
from tests.instances import instance

# `sbic worker`, but the first label of this worker is more than it can bear.
FAILS_ONCE = """
import sys
from pipeline.cli.main import main
from pipeline.stages import worker_stage

take = worker_stage.WorkerStage.take

def take_or_fail(self, partition, records, taken):
    take(self, partition, records, taken)
    if any(b'"w7"' in record.value for record in records):
        raise RuntimeError("more than it can bear")

worker_stage.WorkerStage.take = take_or_fail
sys.argv = ["sbic", "worker", "--web-port", "0"]
main()
"""


async def all_counted_once(here: Project, labels: int) -> None:
    posteriors = await here.until_counted(labels)
    assert sum(posterior["labels"] for posterior in posteriors.values()) == labels


async def test_sigterm_under_load_loses_nothing_and_leaves_the_group_at_once(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=12_000, tasks=400, workers=100, seed=31)
    here = await project(broker)
    with (
        instance(broker.url, here.settings.prefix) as first,
        instance(broker.url, here.settings.prefix) as second,
    ):
        first.wait_ready()
        second.wait_ready()
        sending = asyncio.create_task(here.send(triples))
        await here.until_counted(1_000)
        assert await asyncio.to_thread(first.terminate, 10) == 0
        await sending
        await all_counted_once(here, len(triples))
        owned = [name for name in second.metrics() if "sbic_lag_records" in name]
        assert len([name for name in owned if "labels" in name]) == here.settings.partitions
        assert second.terminate() == 0
    ends = {}
    for record in await here.read(here.topics.labels.name):
        ends[record.partition] = record.offset + 1
    assert await here.committed(here.topics.labels.name) == ends


def run_until_it_fails(here: Project) -> "subprocess.CompletedProcess[str]":
    env = {
        **os.environ,
        "SBIC_BROKER": here.settings.broker,
        "SBIC_PREFIX": here.settings.prefix,
        "PYTHONPATH": os.getcwd(),
    }
    return subprocess.run(
        [sys.executable, "-c", FAILS_ONCE], env=env, capture_output=True, text=True, timeout=60
    )


async def test_an_unexpected_error_ends_with_70_and_the_next_start_recovers(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=1_000, tasks=50, workers=30, seed=32)
    here = await project(broker)
    await here.send(triples)
    failed = await asyncio.to_thread(run_until_it_fails, here)
    assert failed.returncode == 70, failed.stderr
    assert "more than it can bear" in failed.stderr
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await all_counted_once(here, len(triples))
