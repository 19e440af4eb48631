"""The guard's command ends when the starter or the guard does, and never before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbic.local import guard
from tests.local.waiting import is_running, wait_until

SLEEPER = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"


class Guarded:
    """A guard over a Python program, with the pipe that keeps it alive."""

    def __init__(self, program: str, folder: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, folder, sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def child(self) -> int:
        return int(self.stdout.readline())

    def close(self) -> None:
        self.stdin.close()
        self.process.wait(30)
        self.stdout.close()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Guarded]:
    folder = tmp_path / "ephemeral"
    folder.mkdir()
    (folder / "data").write_text("gone with the broker")
    guarded = Guarded(SLEEPER, str(folder))
    yield guarded
    guarded.close()


def test_when_the_pipe_closes_the_command_ends_and_the_folder_is_removed(
    sleeper: Guarded, tmp_path: Path
) -> None:
    child = sleeper.child()
    assert is_running(child)
    sleeper.close()
    assert not is_running(child)
    assert not (tmp_path / "ephemeral").exists()


def test_when_the_starter_is_killed_the_command_ends(tmp_path: Path) -> None:
    starter = f"""
import subprocess, sys, time
sys.path.insert(0, {os.getcwd()!r})
from tests.local.test_guard import SLEEPER, Guarded
print(Guarded(SLEEPER).child(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        assert is_running(child)
        process.kill()
    wait_until(lambda: not is_running(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of this")
def test_when_the_guard_is_killed_the_command_ends(sleeper: Guarded) -> None:
    child = sleeper.child()
    sleeper.process.kill()
    wait_until(lambda: not is_running(child))


def test_when_the_guard_is_terminated_the_command_ends(sleeper: Guarded) -> None:
    child = sleeper.child()
    sleeper.process.send_signal(signal.SIGTERM)
    sleeper.process.wait(30)
    wait_until(lambda: not is_running(child))


def test_the_status_of_a_command_that_ends_by_itself_is_the_guards() -> None:
    guarded = Guarded("import sys; sys.exit(7)")
    assert guarded.process.wait(30) == 7
    guarded.close()


def test_a_command_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    stubborn = "import signal, time; signal.signal(15, lambda *_: None); time.sleep(600)"
    monkeypatch.setattr(guard, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr("sys.stdin", os.fdopen(reading))
    os.close(writing)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert guard.run("", [sys.executable, "-c", stubborn]) < 0
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdin.close()
