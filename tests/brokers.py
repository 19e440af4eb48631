"""What can happen to an embedded broker: SIGKILL, SIGSTOP."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.broker.embedded import EmbeddedBroker

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
    """SIGKILL, and wait until it is gone."""
    os.kill(pid_of(broker), signal.SIGKILL)
    broker.wait()
    broker.stop()


@contextmanager
def paused(broker: EmbeddedBroker) -> Iterator[None]:
    """It does nothing for a while: connections stay open, and nobody answers."""
    java = pid_of(broker)
    os.kill(java, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(java, signal.SIGCONT)
