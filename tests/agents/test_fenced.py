"""An instance that is stalled with an assignment in its producer does not publish it later."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

from orjson import loads

from pipeline.local.embedded import EmbeddedBroker
from tests.agents.kafka import Project, project, until
from tests.agents.test_shutdown import Group
from tests.agents.workforce import register, workforce
from tests.instances import Instance, instance

# Stops itself, once, when the first assignment has reached the client: nothing is written yet.
STOPS_ITSELF = """
import os, signal
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest

send = AIOKafkaClient.send
stops = [signal.SIGSTOP]

async def stop_and_send(self, node_id, request, **options):
    if isinstance(request, ProduceRequest) and self._client_id.endswith("-policy"):
        while stops:
            os.kill(os.getpid(), stops.pop())
    return await send(self, node_id, request, **options)

AIOKafkaClient.send = stop_and_send
"""


def is_stopped(running: Instance) -> bool:
    """Whether the kernel has stopped it."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return "State:\tT" in status


async def ids(here: Project) -> Counter[str]:
    """How many assignments have each id."""
    records = await here.read(here.topics.assignments.name)
    assignments = [loads(record.value) for record in records]
    return Counter(given["id"] for given in assignments if "ended" not in given)


async def test_each_request_is_answered_once_though_its_first_owner_was_stalled_amid_the_answer(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    group = Group(here)
    workers = [f"w{number}" for number in range(40)]
    with (
        instance(broker.url, here.settings.prefix, change=STOPS_ITSELF) as stalled,
        instance(broker.url, here.settings.prefix) as successor,
    ):
        stalled.wait_ready()
        successor.wait_ready()
        await register(here, [f"t{number}" for number in range(200)])
        async with workforce(here) as crowd:
            for worker in workers:
                await crowd.ask(worker)

            async def has_stopped() -> bool:
                return is_stopped(stalled)

            await until(has_stopped)
            for worker in workers:
                await crowd.hear(worker)  # the others have taken its place, and answered
            stalled.process.send_signal(signal.SIGCONT)
            await group.until_members(4, 4)
            for worker in workers:
                await crowd.ask(worker)
                await crowd.hear(worker)
        await asyncio.to_thread(stalled.wait_ready)
        assert "put out of the group" in stalled.log()
        for running in stalled, successor:
            assert await asyncio.to_thread(running.terminate) == 0
    answered = await ids(here)
    assert len(answered) == 2 * len(workers)
    assert set(answered.values()) == {1}
