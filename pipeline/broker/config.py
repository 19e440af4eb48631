"""What the embedded Kafka is told: one node, controller and broker in one, on loopback."""

from pathlib import Path

from pipeline.broker.ports import HOST

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""


def server_properties(port: int, controller_port: int, data: Path) -> str:
    """The text of `server.properties`."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": data,
        # a misspelt topic is an error, not a new topic with the wrong partitions
        "auto.create.topics.enable": "false",
        # one node cannot replicate, and needs few partitions for its own bookkeeping
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # a project left alone for a month goes on where it stopped
        "offsets.retention.minutes": 365 * 24 * 60,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        "num.io.threads": 4,
        # an index has this size from its first entry on: at the default of 10 MB the first 4 kB in
        # each of the 40 partitions that a project writes to kept Kafka busy for more than a second
        "log.index.size.max.bytes": 1 << 20,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())
