"""The configuration of the embedded Kafka: one or three nodes, controllers and brokers in one."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.local.ports import HOST

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""


class Quorum(NamedTuple):
    """A node of a cluster, and the controller ports of all nodes by id."""

    node: int
    controllers: Mapping[int, int]


def server_properties(
    port: int, quorum: Quorum, data: Path, further: Mapping[str, str] | None = None
) -> str:
    """The text of `server.properties`; `further` properties override those of the same name."""
    node, controllers = quorum
    controller_port = controllers[node]
    voters = (f"{voter}@{HOST}:{port}" for voter, port in controllers.items())
    # Kafka's internal topics: with three replicas any one of the brokers may be down
    copies, least_copies = (3, 2) if len(controllers) >= 3 else (1, 1)
    properties: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": data,
        # a misspelt topic is an error, not a new topic with the wrong partitions
        "auto.create.topics.enable": "false",
        # few clients need few partitions of Kafka's internal topics
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": least_copies,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": least_copies,
        "share.coordinator.state.topic.num.partitions": 1,
        # on loopback a broker without heartbeats for so long is gone, and another becomes leader
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        # a project that was unused for a month continues where it stopped
        "offsets.retention.minutes": 365 * 24 * 60,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        "num.io.threads": 4,
        # an index is preallocated: at the default of 10 MB the first 4 kB in each of the 40
        # partitions that a project writes to kept Kafka busy for more than a second
        "log.index.size.max.bytes": 1 << 20,
    }
    properties.update(further or {})
    return "".join(f"{name}={value}\n" for name, value in properties.items())
