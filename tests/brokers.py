"""Faults of an embedded broker, SIGKILL and SIGSTOP; and a cluster of three brokers."""

import os
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest

from sbic.local.broker import DataFolder, EmbeddedBroker
from sbic.local.java import HOST, free_port

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


class EmbeddedCluster:
    """Three brokers on loopback, numbered from 1, each a controller too: any one may be down."""

    def __init__(self, data_dir: Path) -> None:
        controllers = {node: free_port() for node in (1, 2, 3)}
        self.brokers = {
            node: node_of(node, controllers, data_dir / f"node-{node}") for node in controllers
        }

    @property
    def url(self) -> str:
        """The addresses of all brokers, as `SBIC_BROKER` takes them."""
        return ",".join(broker.url for broker in self.brokers.values())

    def __enter__(self) -> Self:
        """Start all brokers together and wait until they are ready: one alone has no quorum."""
        with ExitStack() as unless_ready:
            for broker in self.brokers.values():
                broker.launch()
                unless_ready.callback(broker.stop)
            for broker in self.brokers.values():
                broker.wait_until_ready()
            unless_ready.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all brokers at once: one after the other, the last would have no quorum."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(EmbeddedBroker.stop, self.brokers.values()))


def node_of(node: int, controllers: Mapping[int, int], path: Path) -> EmbeddedBroker:
    """A broker of a cluster with controllers on these ports, and with three copies of all."""
    port = free_port()
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    properties = {
        "node.id": str(node),
        "controller.quorum.voters": ",".join(
            f"{voter}@{HOST}:{at}" for voter, at in controllers.items()
        ),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[node]}",
        **{f"{name}.replication.factor": "3" for name in internal},
        **{f"{name}.min.isr": "2" for name in internal[1:]},
    }
    folder = DataFolder(path)
    with folder.lock():
        folder.prepare(port, controllers[node], None, properties)
    # no two nodes may share the ids of a folder, and none begins with a dash
    directory = urlsafe_b64encode(b"\0" + os.urandom(15)).decode().rstrip("=")
    own = {"node.id": str(node), "directory.id": directory}
    meta = folder.data / "meta.properties"
    lines = (line.partition("=") for line in meta.read_text().splitlines())
    meta.write_text("".join(f"{name}{sep}{own.get(name, value)}\n" for name, sep, value in lines))
    return EmbeddedBroker(port, path, properties=properties)
