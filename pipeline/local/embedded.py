"""An embedded Apache Kafka, started and stopped from Python."""

import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.local import guard
from pipeline.local.config import Quorum
from pipeline.local.errors import BadChoice, CannotStart
from pipeline.local.folder import DataFolder
from pipeline.local.java import java_command
from pipeline.local.ports import HOST, free_port, is_free, kafka_answers
from pipeline.local.secure import SecureFolder

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
        """Start Kafka and wait until it accepts requests; raises `CannotStart`."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start Kafka without waiting until it is ready."""
        if self.port and not is_free(self.port):
            raise BadChoice(f"port {self.port} is taken; choose another with --port")
        command = java_command(f"-Xmx{self.heap_mb}m")
        self.port = self.port or free_port()
        self._folder = DataFolder(self.data_dir or Path(tempfile.mkdtemp(prefix="sbic-kafka-")))
        try:
            self._launch(command, self._folder)
        except BaseException:
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
                raise CannotStart("Kafka did not start", self.end_of_log())
            if time.monotonic() > deadline:
                late = f"Kafka is not ready after {START_SECONDS} seconds"
                raise CannotStart(late, self.end_of_log())

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
