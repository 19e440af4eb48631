"""One run: two projects on one broker under load, faults as planned, then a recount."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from tests.agents.kafka import ProjectOnBroker, project
from tests.soak.fleet import Fleet
from tests.soak.load import SoakUsers
from tests.soak.plan import Fault, FaultKind, plan
from tests.soak.power import Power
from tests.soak.recount import Recount
from tests.soak.workers import last_task

PARTITIONS = 4
LABELS_PER_SECOND = 150
ALGORITHMS = ("fast-sbic", "settled")
AT_REST_SECONDS = 90.0
TOLERANCE = "1e-6"

Say = Callable[[str], None]


class Verdict(NamedTuple):
    """What was sent and what happened, and all that is wrong; nothing if the run is good."""

    labels: int
    requests: int
    faults: int
    wrong: list[str]


class Soaked:
    """One project of a run: its instances, its users and its recount."""

    def __init__(self, here: ProjectOnBroker, fleet: Fleet, load: SoakUsers) -> None:
        self.here = here
        self.fleet = fleet
        self.load = load
        self.recount = Recount(here, load.bad, load.requests)

    async def until_right(self, seconds: float) -> list[str]:
        """What is still wrong after these seconds; returns as soon as nothing is."""
        last = time.monotonic() + seconds
        while True:
            wrong = await self.recount.differences()
            if not wrong or time.monotonic() > last:
                return [f"{self.fleet.name}: {what}" for what in wrong]
            await asyncio.sleep(1)

    async def give_last_labels(self) -> None:
        """Let each worker give one more label, on a task of their own: then records are certain."""
        workers = sorted({worker for _, worker in self.recount.labels})
        await self.here.send((last_task(worker), worker, 1) for worker in workers)
        self.load.labels += len(workers)
        self.recount.workers_are_certain = True


async def soak(seed: int, seconds: float, say: Say) -> Verdict:
    """Run for these seconds and then until all is at rest."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # of the users: the broker is away
    begun = time.monotonic()

    def say_when(what: str) -> None:
        say(f"{time.monotonic() - begun:6.1f} s  {what}")

    with (
        tempfile.TemporaryDirectory(prefix="sbic-soak-") as folder,
        EmbeddedBroker(port=free_port(), data_dir=Path(folder, "kafka")) as broker,
        ExitStack() as stack,
    ):
        power = Power(broker)
        soaked = [await _begin(name, power, seed, say_when, stack) for name in ALGORITHMS]
        for one in soaked:
            await one.fleet.wait_ready()
        faults = plan(seed, seconds, len(soaked))
        supervisors = [asyncio.create_task(one.fleet.look_after()) for one in soaked]
        await _under_load(faults, soaked, power, seconds, say_when)
        say_when("no more faults; waiting until all is at rest")
        wrong = [what for one in soaked for what in await one.until_right(AT_REST_SECONDS)]
        say_when("each worker gives a last label")
        for one in soaked:
            await one.give_last_labels()
            wrong += await one.until_right(AT_REST_SECONDS)
        for supervisor in supervisors:
            supervisor.cancel()
        for one in soaked:
            await one.fleet.stop()
            wrong += await one.until_right(0)
            wrong += one.fleet.failures
            for history in await one.recount.histories():
                say(f"{one.fleet.name}: {history}")
        labels = sum(one.load.labels for one in soaked)
        requests = sum(len(one.load.requests) for one in soaked)
        return Verdict(labels, requests, len(faults), list(dict.fromkeys(wrong)))


async def _begin(name: str, power: Power, seed: int, say: Say, stack: ExitStack) -> Soaked:
    here = await project(power.broker, partitions=PARTITIONS, algorithm=name)
    env = {
        "SBIC_ALGORITHM": name,
        "SBIC_PARTITIONS": str(PARTITIONS),
        "SBIC_SETTLE_TOLERANCE": TOLERANCE,
        "SBIC_GOLD_RATE": "0.1",
    }
    fleet = Fleet(name, here, env, power, say, stack)
    fleet.join()
    fleet.join()
    return Soaked(here, fleet, SoakUsers(here, seed, LABELS_PER_SECOND))


async def _under_load(
    faults: list[Fault], soaked: list[Soaked], power: Power, seconds: float, say: Say
) -> None:
    """Let the users work and the faults happen, until the last of them is over."""
    over = asyncio.Event()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as users:
        for one in soaked:
            users.create_task(one.load.run(over))
        async with asyncio.TaskGroup() as happening:
            for fault in faults:
                await asyncio.sleep(max(0.0, begun + fault.at - time.monotonic()))
                happening.create_task(_happen(fault, soaked[fault.project].fleet, power, say))
            await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
        over.set()


async def _happen(fault: Fault, fleet: Fleet, power: Power, say: Say) -> None:
    match fault.kind:
        case FaultKind.KILL:
            fleet.kill(fault.pick)
        case FaultKind.PAUSE:
            await fleet.pause(fault.pick, fault.seconds)
        case FaultKind.TERMINATE:
            await fleet.terminate(fault.pick)
        case FaultKind.JOIN:
            if power.is_on:
                fleet.join()
        case FaultKind.KILL_BROKER:
            say(f"SIGKILL to the broker, away for {fault.seconds:.1f} s")
            await power.kill(fault.seconds)
        case FaultKind.STOP_BROKER:
            say(f"the broker is stopped, away for {fault.seconds:.1f} s")
            await power.restart(fault.seconds)
