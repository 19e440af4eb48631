"""Instances and a gateway on this machine, supervised: restarted when they stop, never orphaned."""

import asyncio
import os
import signal
import sys
import webbrowser
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from urllib.error import URLError
from urllib.request import urlopen

from sbic.local import guard
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import HOST, BrokerCannotStart, free_port, is_free
from sbic.project.revision import Given
from sbic.project.settings import SPECS, variable

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
    """Yield the delays before successive restarts: each twice as long.

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


# Instances of the pipeline on this machine, each `sbic run` in a separate process.


def instances_of(given: Given, web_ports: Sequence[int]) -> list[Command]:
    """Return the commands of instances with these web ports.

    >>> one, two = instances_of(Given({"prefix": "birds"}), [6066, 6067])
    >>> two.name, two.environment["SBIC_PREFIX"], two.environment["SBIC_WEB_PORT"]
    ('instance-2', 'birds', '6067')
    """
    # -P: do not import a folder named sbic in the working directory
    arguments = [sys.executable, "-P", "-m", "sbic", "run"]
    return [
        Command(f"instance-{number}", arguments, environment(given.with_values(web_port=port)))
        for number, port in enumerate(web_ports, 1)
    ]


def environment(given: Given) -> dict[str, str]:
    """All settings as environment variables; those not given are empty."""
    values = {variable(name): str(given.values.get(name, "")) for name in SPECS}
    return values | given.security.environment()


@asynccontextmanager
async def running(commands: Sequence[Command], log: Report, report: Report) -> AsyncIterator[None]:
    """Keep the commands running while the block runs; on return all have exited."""
    tasks = [asyncio.create_task(keep_running(command, log, report)) for command in commands]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_ready(port: int) -> bool:
    """Whether the instance with this web port is ready."""
    return _page(port, "readyz") is not None


def is_alive(port: int) -> bool:
    """Whether the process with this web port answers."""
    return _page(port, "healthz") is not None


async def until_ready(
    ports: Sequence[int], seconds: float, moved: Callable[[], None] = lambda: None
) -> None:
    """Wait until the instances with these web ports are ready; `moved` is called meanwhile."""
    deadline = monotonic() + seconds
    while not all([await asyncio.to_thread(is_ready, port) for port in ports]):
        if monotonic() > deadline:
            raise TimeoutError(f"the instances are not ready after {seconds:.0f} seconds")
        moved()
        await asyncio.sleep(0.1)


def are_settled(ports: Sequence[int]) -> bool:
    """Whether the instances with these web ports are all settled."""
    return all("\nsbic_settled 1.0\n" in (_page(port, "metrics") or "") for port in ports)


def _page(port: int, name: str) -> str | None:
    """Return a page of a web port; None if it does not answer, or with an error status."""
    try:
        with urlopen(f"http://{HOST}:{port}/{name}", timeout=2) as response:
            return str(response.read().decode())
    except (URLError, ConnectionError, TimeoutError):
        return None


# A gateway for the page of another command: `sbic gateway` in a separate process.


USUAL_PORT = 8080
ASK_SECONDS = 0.2


def gateway_of(given: Given, prefixes: Sequence[str], port: int) -> Command:
    """Return the command of a gateway on loopback, for projects with these settings.

    >>> command = gateway_of(Given({"budget": 1000}), ["birds", "pets"], 8080)
    >>> command.environment["SBIC_GATEWAY_PROJECTS"], command.environment["SBIC_GATEWAY_PORT"]
    ('birds,pets', '8080')
    """
    # -P: do not import a folder named sbic in the working directory
    arguments = [sys.executable, "-P", "-m", "sbic", "gateway"]
    own = {
        "SBIC_GATEWAY_HOST": HOST,
        "SBIC_GATEWAY_PORT": str(port),
        "SBIC_GATEWAY_PROJECTS": ",".join(prefixes),
    }
    return Command("gateway", arguments, environment(given) | own)


def page_at(port: int) -> str:
    """Return the address of the page."""
    return f"http://{HOST}:{port}/"


def usual_port() -> int:
    """Return the usual port, or any free one if that is in use."""
    return USUAL_PORT if is_free(USUAL_PORT) else free_port()


@asynccontextmanager
async def opening(port: int, report: Report) -> AsyncIterator[None]:
    """While the block runs, open the page in a browser as soon as the gateway answers."""
    task = asyncio.create_task(_open(port, report))
    try:
        yield
    finally:
        task.cancel()


async def _open(port: int, report: Report) -> None:
    answers = False
    while not answers:
        await asyncio.sleep(ASK_SECONDS)
        answers = await asyncio.to_thread(is_alive, port)
    if not await asyncio.to_thread(webbrowser.open, page_at(port)):
        report("gateway", f"no browser was found here; open {page_at(port)} yourself")


# Runs instances and a gateway beside a broker until a signal.


LOOK_SECONDS = 0.5
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def until_stopped(
    broker: EmbeddedBroker,
    commands: Sequence[Command],
    log: Report,
    report: Report,
    beside: AbstractAsyncContextManager[None] | None = None,
) -> None:
    """Keep the broker and the commands running until a signal.

    `beside` is a context that is open meanwhile.
    """
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(commands, log, report), beside or nullcontext():
        await _keep_broker(broker, stop, log, report)
        report("up", "stopping the instances, then Kafka")


async def _keep_broker(
    broker: EmbeddedBroker, stop: asyncio.Event, log: Report, report: Report
) -> None:
    """Restart the broker on the same data whenever it stops; return once `stop` is set."""
    waits, started = delays(), monotonic()
    while not await _is_set_within(stop, LOOK_SECONDS):
        status = broker.wait(0)
        if status is None:
            continue
        for line in broker.end_of_log().splitlines():
            log("kafka", line)
        if monotonic() - started > STEADY_SECONDS:
            waits = delays()
        delay = next(waits)
        report("kafka", f"{ended(status)}; restarting it in {delay:g} s, on the same data")
        if await _is_set_within(stop, delay):
            return
        started = monotonic()
        try:
            broker.launch()
        except (
            BrokerCannotStart
        ) as error:  # something else has the port; or a part of it is still there
            report("kafka", str(error))


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
