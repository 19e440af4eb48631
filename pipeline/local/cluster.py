"""An embedded cluster of three Kafka nodes, each controller and broker: any one may be down."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.local.config import Quorum
from pipeline.local.embedded import EmbeddedBroker
from pipeline.local.ports import free_port

NODES = 3
HEAP_MB = 256  # per node


class EmbeddedCluster:
    """Three brokers on loopback, numbered from 1; each can be stopped and started separately.

    with EmbeddedCluster(folder) as cluster:
        connect(cluster.url)
        cluster.brokers[2].stop()
    """

    def __init__(self, data_dir: Path) -> None:
        controllers = {node: free_port() for node in range(1, NODES + 1)}
        self.brokers = {
            node: EmbeddedBroker(
                free_port(), data_dir / f"node-{node}", Quorum(node, controllers), HEAP_MB
            )
            for node in controllers
        }

    @property
    def url(self) -> str:
        """The addresses of all brokers, as `SBIC_BROKER` takes them."""
        return ",".join(broker.url for broker in self.brokers.values())

    def start(self) -> None:
        """Start all brokers together and wait until they are ready: one alone has no quorum."""
        with ExitStack() as unless_ready:
            for broker in self.brokers.values():
                broker.launch()
                unless_ready.callback(broker.stop)
            for broker in self.brokers.values():
                broker.wait_until_ready()
            unless_ready.pop_all()

    def stop(self) -> None:
        """Stop all brokers at once: one after the other, the last would have no quorum."""
        with ThreadPoolExecutor(NODES) as threads:
            list(threads.map(EmbeddedBroker.stop, self.brokers.values()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
