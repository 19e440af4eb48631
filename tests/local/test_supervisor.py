"""A command that stops is started again, later each time; none is left behind."""

import asyncio
import sys
from collections.abc import Callable
from itertools import islice

import pytest

from sbic.local import processes as supervisor
from sbic.local.processes import Command, delays, keep_running, running


class Heard:
    """What was said and logged, as it happens."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.more = asyncio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))
        self.more.set()

    async def until(self, condition: Callable[[list[str]], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition([line for _, line in self.lines]):
                self.more.clear()
                await self.more.wait()


def python(program: str, **environment: str) -> Command:
    return Command("instance-1", [sys.executable, "-c", program], environment)


async def test_one_that_stops_is_started_again_with_a_message_and_a_longer_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.01)
    log, said = Heard(), Heard()
    program = "import os; print('hello', os.environ['NAME'], flush=True); os._exit(70)"
    task = asyncio.create_task(keep_running(python(program, NAME="ann"), log, said))
    await said.until(lambda lines: len(lines) >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert said.lines[:3] == [
        ("instance-1", "stopped with status 70; restarting it in 0.01 s"),
        ("instance-1", "stopped with status 70; restarting it in 0.02 s"),
        ("instance-1", "stopped with status 70; restarting it in 0.04 s"),
    ]
    assert log.lines[:3] == [("instance-1", "hello ann")] * 3


async def test_one_that_ran_for_long_is_started_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.0)
    said = Heard()
    task = asyncio.create_task(keep_running(python(""), Heard(), said))
    await said.until(lambda lines: len(lines) >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert {line for _, line in said.lines} == {"stopped with status 0; restarting it in 0.01 s"}


async def test_one_that_is_killed_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 100.0)
    said = Heard()
    program = "import os; os.kill(os.getpid(), 9)"
    async with running([python(program)], Heard(), said):
        await said.until(bool)
    assert said.lines[0][1].startswith("was killed by SIGKILL; ")


async def test_all_end_in_good_order_and_their_last_words_are_heard() -> None:
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye', flush=True)))\n"
        "print('hello', flush=True)\n"
        "time.sleep(600)\n"
    )
    log = Heard()
    async with running([python(program), python(program)], log, log):
        await log.until(lambda lines: lines.count("hello") == 2)
    assert [line for _, line in log.lines] == ["hello", "hello", "bye", "bye"]


def test_the_delay_stops_growing() -> None:
    assert list(islice(delays(), 20))[-1] == supervisor.LONGEST_DELAY
