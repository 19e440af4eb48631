"""What is shared: databases, and `sbic sink` as a process."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from sbic.project.settings import Settings
from tests.projects import environment
from tests.sink.postgres import IS_INSTALLED, PASSWORD, Server, postgres


class Target(NamedTuple):
    """A database for a sink; `query` returns rows, with {} for the place of the tables."""

    url: str
    query: Callable[[str], list[tuple[Any, ...]]]
    schema: str = ""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query returns; `@` stands for the place of the tables."""
        return self.query(sql.replace("@", f'"{self.schema}".' if self.schema else ""))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One PostgreSQL for all tests of this process."""
    if not IS_INSTALLED:
        pytest.skip("PostgreSQL is not installed: on Debian, make test as root installs it")
    with postgres() as running:
        yield running


def in_sqlite(path: Path) -> Target:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path, timeout=30)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    return Target(f"sqlite:{path}", rows)


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path, project: Settings) -> Target:
    """An empty database for the project: one of SQLite, then one of PostgreSQL."""
    if request.param == "sqlite":
        return in_sqlite(tmp_path / "crowd.db")
    running: Server = request.getfixturevalue("server")
    name = f"crowd{uuid4().hex[:8]}"
    running.rows(f"CREATE SCHEMA {name}_other")  # as others have in the same database
    return Target(running.url, running.rows, project.prefix)


def command_of(target: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "sbic", "sink", target, *arguments]


def sink_environment(settings: Settings) -> dict[str, str]:
    return environment(settings) | {"PGPASSWORD": PASSWORD}


def fill(settings: Settings, target: Target, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `sbic sink --once`; it has to succeed."""
    ended = subprocess.run(
        command_of(target.url, "--once", *arguments),
        env=sink_environment(settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


class Sink:
    """A running `sbic sink`."""

    def __init__(self, process: "subprocess.Popen[bytes]", log_path: Path) -> None:
        self.process = process
        self._log_path = log_path

    def log(self) -> str:
        """What it has logged."""
        return self._log_path.read_text()

    def until(self, is_so: Callable[[], bool], deadline: float = 60) -> None:
        """Wait until something is so; fail if the sink ends before."""
        last = time.monotonic() + deadline
        while not is_so():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < last, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Send SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def sink(settings: Settings, target: Target, folder: Path, *arguments: str) -> Iterator[Sink]:
    """Start `sbic sink`, and kill it at the end."""
    log_path = folder / f"sink-{uuid4().hex[:8]}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command_of(target.url, *arguments),
            env=sink_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Sink(process, log_path)
        finally:
            process.kill()
            process.wait()
