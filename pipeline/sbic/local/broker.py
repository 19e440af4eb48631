"""An embedded Apache Kafka, started and stopped from Python."""

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

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


def server_properties(
    port: int, controller_port: int, data: Path, further: Mapping[str, str] | None = None
) -> str:
    """Get the text of `server.properties`; `further` properties override those of the same name."""
    properties: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": data,
        # a misspelt topic is an error, not a new topic with the wrong partitions
        "auto.create.topics.enable": "false",
        # Kafka's internal topics: there is one broker, and few clients need few partitions
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # on loopback a broker without heartbeats for so long is gone
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
    """Return the per-user folder, kept between runs."""
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
        """Return the folder's lock, held as long as this file is open in any process."""
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
        controller_port: int,
        secure: SecureFolder | None = None,
        further: Mapping[str, str] | None = None,
    ) -> None:
        """Format the folder if it is new, and write the configuration (it may have a password)."""
        properties = dict(further or {})
        if secure:
            properties = secure.server_properties(port, controller_port) | properties
        text = server_properties(port, controller_port, self.data, properties)
        write_private(self.properties, text)
        if not self.data.exists():
            if secure:
                _format(self.data, self.properties, secure.format_options())
            else:
                _copy_of_formatted(self.data)
        self.data.chmod(PRIVATE)
        self.log4j.write_text(LOG4J)

    def end_of_log(self, lines: int = 10) -> str:
        """Return the last lines of Kafka's log, without stack traces."""
        try:
            written = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join([line for line in written if not line.startswith("\tat ")][-lines:])


def _copy_of_formatted(data: Path) -> None:
    formatted = cache_folder() / "formatted"
    if not formatted.exists():
        _make_formatted(formatted)
    unfinished = data.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(formatted, unfinished)
    unfinished.rename(data)


def _make_formatted(target: Path) -> None:
    """Format an empty folder with Kafka's own tool; that takes a second, so it is cached."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        properties = Path(scratch, "server.properties")
        data = Path(scratch, "data")
        properties.write_text(server_properties(9092, 9093, data))
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
    """Return an argument as a line of a Java argument file.

    >>> print(_quoted('say "hello"'), end="")
    "say \\"hello\\""
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"\n'


START_SECONDS = 60
HEAP_MB = 512


class EmbeddedBroker:
    """A broker on loopback that never outlives the process that started it.

    Without a data folder it is ephemeral: it uses a temporary one, which is removed when it stops.
    Without a port it uses a free one. With a secure folder clients need TLS, a password and ACLs
    (see `secure`). `properties` are further lines of `server.properties`.

        with EmbeddedBroker() as broker:
            connect(broker.address)
    """

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | None = None,
        secure: SecureFolder | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.data_dir = data_dir
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
        command = java_command(f"-Xmx{HEAP_MB}m")
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
            if self.secure:
                self.secure.make()
                self.secure.write_environments(self.url)
            folder.prepare(self.port, free_port(), self.secure, self.properties)
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
        """Return the last lines of Kafka's log."""
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
