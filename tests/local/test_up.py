"""`sbic up`: everything on one machine, restarted when it fails, and ended by a signal."""

import asyncio
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from urllib.request import urlopen

import pytest

from sbic.local import processes as supervisor
from sbic.local.java import free_port
from sbic.local.processes import Command, delays, keep_running, running
from sbic.project.settings import Settings
from tests.local.waiting import wait_until
from tests.projects import environment, sbic


class Up:
    """A running `sbic up` and what it wrote."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.log_path = folder / "up.log"
        self.settings = Settings(broker=f"kafka://127.0.0.1:{self.port}", prefix="birds")
        self.page = f"http://127.0.0.1:{free_port()}/"
        self.opened = folder / "opened"
        ports = ["--port", str(self.port), "--web-port", "0"]
        ports += ["--gateway-port", self.page.rpartition(":")[2].rstrip("/")]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sbic", "up", *ports, *arguments],
                env={**environment(self.settings), "BROWSER": str(browser(folder, self.opened))},
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        last = time.monotonic() + 60
        while self.log().count(text) < times:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < last, self.log()
            time.sleep(0.05)


def browser(folder: Path, opened: Path) -> Path:
    """A browser that keeps the address it is to open in a file."""
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >{shlex.quote(str(opened))}\n')
    program.chmod(0o755)
    return program


def processes_below(pid: int) -> dict[int, str]:
    """All that a process has started, directly or not, with their commands."""
    table = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in table.stdout.splitlines()]
    below: dict[int, str] = {}
    parents = {pid}
    while parents:
        found = {int(row[0]): row[2] for row in rows if int(row[1]) in parents}
        below |= found
        parents = set(found)
    return below


def all_gone(pids: dict[int, str]) -> bool:
    """Whether none of the processes runs; zombies do not."""
    numbers = ",".join(map(str, pids))
    found = subprocess.run(["ps", "-o", "stat=", "-p", numbers], capture_output=True, text=True)
    return all(state.startswith("Z") for state in found.stdout.split())


@pytest.fixture
def up(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Up]:
    """With as many instances as the test asks for."""
    count = str(request.param)
    running = Up(tmp_path, "--ephemeral", "--open", "--instances", count, "--partitions", "2")
    yield running
    running.process.kill()
    running.process.wait()


@pytest.mark.broker
@pytest.mark.parametrize("up", [2], indirect=True)
def test_an_instance_that_stops_comes_back_and_sigterm_ends_all_with_0(up: Up) -> None:
    up.wait_for("INFO sbic: ready", times=2)
    started = processes_below(up.process.pid)
    instances = [pid for pid, command in started.items() if command.endswith("-P -m sbic run")]
    direct = [pid for pid in instances if "guard.py" not in started[pid]]
    assert len(direct) == 2
    os.kill(direct[0], signal.SIGTERM)
    up.wait_for("stopped with status 0; restarting it in 1 s")
    labels = "task,worker,label\nt1,ann,1\nt2,bob,-1\nt3,cy,1\n"
    ended = sbic(up.settings, "replay", "-", "--wait", "--timeout", "60", stdin=labels)
    assert ended.returncode == 0, ended.stderr + up.log()
    with urlopen(up.page, timeout=10) as page:
        assert b"<title>sbic</title>" in page.read()
    assert f"the page: {up.page}" in up.log()
    wait_until(lambda: up.opened.exists() and up.opened.read_text() == f"{up.page}\n", seconds=60)
    started |= processes_below(up.process.pid)
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    assert all_gone(started)
    last = up.log().splitlines()[-1]
    assert last[:10] in ("instance-1", "instance-2", "gateway   "), "every line is prefixed"


@pytest.mark.broker
@pytest.mark.parametrize("up", [1], indirect=True)
def test_kafka_that_dies_comes_back_on_the_same_data(up: Up) -> None:
    up.wait_for("INFO sbic: ready")
    first = "task,worker,label\nt1,ann,1\n"
    sent = sbic(up.settings, "replay", "-", "--wait", "--timeout", "60", stdin=first)
    assert sent.returncode == 0, sent.stderr + up.log()
    started = processes_below(up.process.pid)
    kafka = [pid for pid, command in started.items() if Path(command.split()[0]).name == "java"]
    assert len(kafka) == 1
    os.kill(kafka[0], signal.SIGKILL)
    up.wait_for("was killed by SIGKILL; restarting it in 1 s, on the same data")
    more = "task,worker,label\nt1,bob,1\n"

    def counted() -> bool:
        ended = sbic(up.settings, "replay", "-", "--wait", "--timeout", "60", stdin=more)
        return ended.returncode == 0

    wait_until(counted, seconds=120)
    exported = sbic(up.settings, "export", "labels")
    assert {"t1,ann,1", "t1,bob,1"} <= {
        ",".join(line.split(",")[:3]) for line in exported.stdout.splitlines()
    }
    assert up.process.poll() is None
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    assert all_gone(started | processes_below(up.process.pid))


@pytest.mark.broker
@pytest.mark.parametrize("up", [1], indirect=True)
def test_nothing_outlives_it_even_if_it_is_killed(up: Up) -> None:
    up.wait_for("INFO sbic: ready")
    started = processes_below(up.process.pid)
    assert any("java" in command for command in started.values())
    up.process.kill()
    wait_until(lambda: all_gone(started), seconds=60)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--ephemeral", "--data-dir", "x"], "leave out --data-dir"),
        (["--instances", "9", "--partitions", "8"], "9 instances cannot share 8 partitions"),
        (["--web-port", "65535", "--instances", "2"], "there is no web port 65536"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    arguments: list[str], problem: str
) -> None:
    ended = sbic(Settings(), "up", *arguments)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line


@pytest.mark.broker
def test_no_instance_starts_when_the_project_has_too_few_partitions_for_all() -> None:
    ended = sbic(Settings(), "up", "--ephemeral", "--web-port", "0", "--instances", "9")
    assert ended.returncode == 2
    assert "9 instances cannot share 8 partitions" in ended.stderr
    assert not ended.stdout


def test_taken_ports_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option in ("--web-port", "--port", "--gateway-port"):
            other = [] if option == "--web-port" else ["--web-port", "0"]
            ended = sbic(Settings(), "up", "--ephemeral", option, port, *other)
            assert ended.returncode == 2
            assert f"port {port} is taken; choose another with {option}" in ended.stderr


# A command that stops is started again, later each time; none is left behind.


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
