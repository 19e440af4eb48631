"""Faults of an embedded broker: SIGKILL and SIGSTOP."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sbic.local.broker import EmbeddedBroker

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc"), reason="needs /proc to find Kafka's process"
)


def pid_of(broker: EmbeddedBroker) -> int:
    """The process id of Java, a child of the broker's guard."""
    assert broker._guard
    guard = broker._guard.pid
    (java,) = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
    return int(java)


def kill(broker: EmbeddedBroker) -> None:
    """Send SIGKILL, and wait until Kafka has ended."""
    os.kill(pid_of(broker), signal.SIGKILL)
    broker.wait()
    broker.stop()


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs any more."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in threads(pid)]
    return set(states) <= {"T", "Z", "X"}


def threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/stat"))


@contextmanager
def paused(broker: EmbeddedBroker) -> Iterator[None]:
    """Pause a broker: connections stay open, and requests get no response."""
    java = pid_of(broker)
    os.kill(java, signal.SIGSTOP)
    try:
        while not is_stopped(java):  # on a busy machine its threads run on for a moment
            time.sleep(0.01)
        yield
    finally:
        os.kill(java, signal.SIGCONT)
