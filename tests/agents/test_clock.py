"""A clock that jumps back an hour: leases may last longer, and nothing else is different."""

from pathlib import Path

from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import project
from tests.agents.recount import agree_with_a_recount
from tests.agents.workforce import Workforce, register, workforce
from tests.instances import instance

# All of the instance reads the time from there; what counts seconds has another clock.
JUMPS_BACK_WHEN_TOLD = """
import os, time

now, now_ns = time.time, time.time_ns

def back():
    return 3600 if os.path.exists({told!r}) else 0

time.time = lambda: now() - back()
time.time_ns = lambda: now_ns() - back() * 10**9
"""
TASKS = [f"t{number}" for number in range(30)]


async def ask_and_answer(crowd: Workforce, worker: str) -> tuple[str, int]:
    """The task that a worker gets and when it expires; they answer it, and the lease ends."""
    await crowd.ask(worker)
    given = await crowd.hear(worker)
    await crowd.hand_in(worker, given["task"], 1)
    ended = await crowd.hear(worker)
    assert (ended["id"], ended["ended"]) == (given["id"], "answered")
    return given["task"], given["expires_at"]


async def test_a_clock_that_jumps_back_an_hour_loses_nothing_and_gives_no_task_twice(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    change = JUMPS_BACK_WHEN_TOLD.format(told=str(told))
    triples = crowd(labels=1_500, tasks=100, workers=60, seed=12)
    here = await project(broker, partitions=2)
    env = {"SBIC_PARTITIONS": "2"}
    got: list[tuple[str, int]] = []
    async with workforce(here) as people:
        with instance(broker.url, here.settings.prefix, change, **env) as running:
            running.wait_ready()
            await register(here, TASKS)
            await here.send(triples[:500])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            told.touch()
            await here.send(triples[500:1_000])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            await here.until_counted(1_000 + len(got))
            running.kill()  # the next start reads times that go back
        told.unlink()
        with instance(broker.url, here.settings.prefix, change, **env) as running:
            running.wait_ready()
            await here.send(triples[1_000:])
            got += [await ask_and_answer(people, "ann") for _ in range(5)]
            await here.until_counted(1_500 + len(got))
            assert running.metrics()["sbic_leases"] == 0
            assert running.terminate() == 0
    before, after = got[4][1], got[5][1]
    assert after < before - 3_000_000, "the clock did not jump"
    tasks = [task for task, _ in got]
    assert len(set(tasks)) == len(tasks)
    await agree_with_a_recount(here, [*triples, *((task, "ann", 1) for task in tasks)])
