"""The broker's data folder: formatted once, for one Kafka version and one broker at a time."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pipeline.local.config import LOG4J, Quorum, server_properties
from pipeline.local.errors import BadChoice, CannotStart
from pipeline.local.java import KAFKA_VERSION, cache_folder, java_command
from pipeline.local.secure import SecureFolder, write_private

CLUSTER_ID = "c2JpYy1lbWJlZGRlZC0wMQ"  # Kafka wants 16 bytes in base64
VERSION_FILE = "sbic-kafka-version"


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
            lock = (self.path / "lock").open("w")
        except OSError as error:
            raise BadChoice(f"cannot use the data folder {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise BadChoice(f"another broker is running on the data folder {self.path}") from None
        return lock

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
        raise CannotStart("Kafka cannot format a data folder", done.stdout + done.stderr)
    (data / VERSION_FILE).write_text(KAFKA_VERSION)


def _quoted(argument: str) -> str:
    """An argument as a line of a Java argument file.

    >>> print(_quoted('say "hello"'), end="")
    "say \\"hello\\""
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"\n'
