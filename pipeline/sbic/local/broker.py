"""An embedded Apache Kafka, one node or three, started and stopped from Python."""

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from sbic.local import guard
from sbic.local.java import (
    HOST,
    KAFKA_VERSION,
    BadChoice,
    BrokerCannotStart,
    cache_folder,
    free_port,
    is_free,
    java_command,
    kafka_answers,
)
from sbic.local.secure import SecureFolder, write_private

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


# The broker's data folder: formatted once, for one Kafka version and one broker at a time.


CLUSTER_ID = "c2JpYy1lbWJlZGRlZC0wMQ"  # Kafka wants 16 bytes in base64
VERSION_FILE = "sbic-kafka-version"
PRIVATE = 0o700


def default_folder() -> Path:
    """The per-user folder, kept between runs."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "sbic" / "kafka"


class DataFolder:
    """Kafka's data in `data/`, next to its configuration and its log."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.data = self.path / "data"
        self.log = self.path / "kafka.log"
        self.properties = self.path / "server.properties"
        self.log4j = self.path / "log4j2.properties"

    def check(self) -> None:
        """Refuse a folder with data of another Kafka version, or not created by sbic."""
        if not self.data.exists():
            return
        try:
            version = (self.data / VERSION_FILE).read_text().strip()
        except OSError:
            raise BadChoice(
                f"{self.path} was not created by sbic broker; choose another folder with --data-dir"
            ) from None
        if version != KAFKA_VERSION:
            raise BadChoice(
                f"{self.path} has data of Kafka {version}, and this is Kafka {KAFKA_VERSION}: "
                f"choose another folder with --data-dir, or remove that one"
            )

    def lock(self) -> IO[str]:
        """The folder's lock, held as long as this file is open in any process."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._make_private()
            lock = (self.path / "lock").open("w")
        except OSError as error:
            raise BadChoice(f"cannot use the data folder {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise BadChoice(f"another broker is running on the data folder {self.path}") from None
        return lock

    def _make_private(self) -> None:
        """Let nobody else read labels and ids; a folder with files of others keeps its mode."""
        ours = (self.data, self.log, self.properties, self.log4j, self.path / "lock")
        with suppress(PermissionError):  # the folder of another user, who lets this one write
            if set(self.path.iterdir()) <= set(ours):
                self.path.chmod(PRIVATE)

    def prepare(
        self,
        port: int,
        quorum: Quorum,
        secure: SecureFolder | None = None,
        further: Mapping[str, str] | None = None,
    ) -> None:
        """Format the folder if it is new, and write the configuration (it may have a password)."""
        properties = dict(further or {})
        if secure:
            controller_port = quorum.controllers[quorum.node]
            properties = secure.server_properties(port, controller_port) | properties
        write_private(self.properties, server_properties(port, quorum, self.data, properties))
        if not self.data.exists():
            if secure:
                _format(self.data, self.properties, secure.format_options())
            else:
                _copy_of_formatted(self.data, quorum.node)
        self.data.chmod(PRIVATE)
        self.log4j.write_text(LOG4J)

    def end_of_log(self, lines: int = 10) -> str:
        """The last lines of Kafka's log, without stack traces."""
        try:
            written = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join([line for line in written if not line.startswith("\tat ")][-lines:])


def _copy_of_formatted(data: Path, node: int) -> None:
    formatted = cache_folder() / "formatted"
    if not formatted.exists():
        _make_formatted(formatted)
    unfinished = data.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(formatted, unfinished)
    _rename_node(unfinished / "meta.properties", node)
    unfinished.rename(data)


def _rename_node(meta: Path, node: int) -> None:
    """Give a copied folder the ids of this node: no two nodes may share them."""
    own = {"node.id": str(node), "directory.id": _new_id()}
    lines = (line.partition("=") for line in meta.read_text().splitlines())
    meta.write_text("".join(f"{name}{sep}{own.get(name, value)}\n" for name, sep, value in lines))


def _new_id() -> str:
    """A random id in Kafka's format; one that begins with a dash would look like an option."""
    return urlsafe_b64encode(b"\0" + os.urandom(15)).decode().rstrip("=")


def _make_formatted(target: Path) -> None:
    """Format an empty folder with Kafka's own tool; that takes a second, so it is cached."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        properties = Path(scratch, "server.properties")
        data = Path(scratch, "data")
        properties.write_text(server_properties(9092, Quorum(1, {1: 9093}), data))
        _format(data, properties, [])
        try:
            data.rename(target)
        except OSError:
            if not target.exists():  # another process may have created it first
                raise


def _format(data: Path, properties: Path, options: list[str]) -> None:
    """Format a folder; arguments go through a file, since the process list shows arguments."""
    java, *before = java_command()
    tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    with tempfile.TemporaryDirectory() as scratch:
        arguments = Path(scratch, "arguments")
        write_private(arguments, "".join(map(_quoted, [*before, *tool, *options])))
        done = subprocess.run([java, f"@{arguments}"], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(data, ignore_errors=True)
        raise BrokerCannotStart("Kafka cannot format a data folder", done.stdout + done.stderr)
    (data / VERSION_FILE).write_text(KAFKA_VERSION)


def _quoted(argument: str) -> str:
    """An argument as a line of a Java argument file.

    >>> print(_quoted('say "hello"'), end="")
    "say \\"hello\\""
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"\n'


START_SECONDS = 60


class EmbeddedBroker:
    """A broker on loopback that never outlives the process that started it.

    Without a data folder it is ephemeral: it uses a temporary one, which is removed when it stops.
    Without a port it uses a free one. With a quorum it is one node of several (see `cluster`). With
    a secure folder clients need TLS, a password and ACLs (see `secure`). `properties` are further
    lines of `server.properties`.

        with EmbeddedBroker() as broker:
            connect(broker.address)
    """

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | None = None,
        quorum: Quorum | None = None,
        heap_mb: int = 512,
        secure: SecureFolder | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.data_dir = data_dir
        self.quorum = quorum
        self.heap_mb = heap_mb
        self.secure = secure
        self.properties = properties
        self._folder: DataFolder | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port, as Kafka clients take them."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The address, as `SBIC_BROKER` takes it."""
        return f"kafka://{self.address}"

    def start(self) -> None:
        """Start Kafka and wait until it accepts requests; raises `BrokerCannotStart`."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start Kafka without waiting until it is ready; if it has exited, on the same data."""
        if self.port and not is_free(self.port):
            raise BadChoice(f"port {self.port} is taken; choose another with --port")
        command = java_command(f"-Xmx{self.heap_mb}m")
        self.port = self.port or free_port()
        has_data = self._folder is not None
        self._folder = self._folder or DataFolder(
            self.data_dir or Path(tempfile.mkdtemp(prefix="sbic-kafka-"))
        )
        try:
            self._launch(command, self._folder)
        except BaseException:
            if not has_data:
                self.stop()
            raise

    def _launch(self, java: list[str], folder: DataFolder) -> None:
        folder.check()
        with folder.lock() as lock, folder.log.open("wb") as log:
            quorum = self.quorum or Quorum(1, {1: free_port()})
            if self.secure:
                self.secure.make()
                self.secure.write_environments(self.url)
            folder.prepare(self.port, quorum, self.secure, self.properties)
            logging = f"-Dlog4j2.configurationFile={folder.log4j}"
            kafka = [*java, logging, "kafka.Kafka", str(folder.properties)]
            to_remove = "" if self.data_dir else str(folder.path)
            if self._guard and self._guard.stdin:  # of a Kafka that has exited
                self._guard.stdin.close()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, to_remove, *kafka],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],  # the folder is locked until Kafka has exited
                start_new_session=True,  # Ctrl-C goes to the parent process only
            )

    def wait_until_ready(self) -> None:
        """Wait until a launched Kafka accepts requests; stop it if it does not."""
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        context = ssl.create_default_context(cafile=self.secure.cafile) if self.secure else None
        while not kafka_answers(self.port, context):
            if self.wait(0.05) is not None:
                raise BrokerCannotStart("Kafka did not start", self.end_of_log())
            if time.monotonic() > deadline:
                late = f"Kafka is not ready after {START_SECONDS} seconds"
                raise BrokerCannotStart(late, self.end_of_log())

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until Kafka exits; its exit status, or None if it is still running."""
        assert self._guard
        try:
            return self._guard.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def end_of_log(self) -> str:
        """The last lines of Kafka's log."""
        assert self._folder
        return self._folder.end_of_log()

    def stop(self) -> None:
        """Shut Kafka down gracefully, and wait until it has exited."""
        if self._guard:
            assert self._guard.stdin
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None
        if self._folder and not self.data_dir:
            shutil.rmtree(self._folder.path, ignore_errors=True)
            self._folder = None

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


# An embedded cluster of three Kafka nodes, each controller and broker: any one may be down.


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
