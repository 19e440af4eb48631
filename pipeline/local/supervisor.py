"""Keeps a command running: restarts it when it stops, and never leaves it orphaned."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from pipeline.local import guard

FIRST_DELAY = 1.0  # seconds before a command is restarted
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0  # after a run this long, the next delay is the first one again
LONGEST_LINE = 1 << 20

Report = Callable[[str, str], None]
"""Receives the name of a command and a line about it."""


@dataclass(frozen=True)
class Command:
    """A command to run, and its name in the output."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


def delays() -> Iterator[float]:
    """The delays before successive restarts: each twice as long.

    >>> from itertools import islice
    >>> list(islice(delays(), 7))
    [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    delay = FIRST_DELAY
    while True:
        yield delay
        delay = min(2 * delay, LONGEST_DELAY)


async def keep_running(command: Command, log: Report, report: Report) -> None:
    """Run a command until cancelled, and restart it whenever it stops.

    `log` receives the lines that it writes, `report` its restarts. On cancellation the command gets
    SIGTERM, and has exited on return.
    """
    waits = delays()
    while True:
        started = monotonic()
        status = await _run(command, log)
        if monotonic() - started > STEADY_SECONDS:
            waits = delays()
        delay = next(waits)
        report(command.name, f"{ended(status)}; restarting it in {delay:g} s")
        await asyncio.sleep(delay)


async def _run(command: Command, log: Report) -> int:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", guard.__file__, "", *command.arguments),
        stdin=PIPE,  # when it closes, even because this process was killed, the command stops
        stdout=PIPE,
        stderr=STDOUT,
        env={**os.environ, **command.environment},
        limit=LONGEST_LINE,
        start_new_session=True,  # Ctrl-C goes to this process only
    )
    relay = asyncio.create_task(_relay(process, command.name, log))
    try:
        await asyncio.shield(relay)
    except asyncio.CancelledError:
        assert process.stdin
        process.stdin.close()
        await relay
        raise
    return await process.wait()


async def _relay(process: Process, name: str, log: Report) -> None:
    assert process.stdout
    async for line in process.stdout:
        log(name, line.decode(errors="replace").rstrip())
    await process.wait()


def ended(status: int) -> str:
    """How a guarded command stopped, in words.

    >>> ended(70), ended(256 - signal.SIGKILL)
    ('stopped with status 70', 'was killed by SIGKILL')
    """
    try:
        return f"was killed by {signal.Signals(256 - status).name}"
    except ValueError:
        return f"stopped with status {status}"
