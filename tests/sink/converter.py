"""Kafka Connect's own converter, which reads the records of the flat topic.

`python -m tests.sink.converter` fetches it from Maven Central: two megabytes. That is part of
`make test`, not of a test. The program that calls it is compiled by the JDK of the machine.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import jgo

from sbic.local.java import KAFKA_VERSION, cache_folder, java_command

CONVERTER = f"org.apache.kafka:connect-json:{KAFKA_VERSION}"
JARS = cache_folder() / "connect-json"  # a file with their paths
PROGRAM = Path(__file__).parent / "ReadFlat.java"


class ConnectField(NamedTuple):
    """A field as Connect has it: its type, or the name of its logical type, and its value."""

    kind: str
    value: str


def why_not() -> str:
    """Why the converter cannot be run; empty if it can."""
    if shutil.which("javac") is None:
        return "there is no JDK: on Debian, apt-get install default-jdk-headless"
    if not all(Path(jar).exists() for jar in _jars() or ["none"]):
        return f"make test fetches {CONVERTER} from Maven Central"
    return ""


def read(records: Iterable[tuple[bytes, bytes]]) -> list[dict[str, ConnectField]]:
    """Read keys and values of the flat topic; the fields of each record, and its key."""
    *_, class_path = java_command()
    done = subprocess.run(
        ["java", "-cp", os.pathsep.join([*_jars(), class_path]), str(PROGRAM)],
        input=b"".join(b"%b\t%b\n" % record for record in records),
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = []
    for record in done.stdout.decode().split("\n\n")[:-1]:
        rows = [line.split("\t") for line in record.splitlines()]
        found.append({name: ConnectField(kind, value) for name, kind, value in rows})
    return found


def _jars() -> list[str]:
    return JARS.read_text().splitlines() if JARS.exists() else []


if __name__ == "__main__":
    if why_not():
        fetched = [str(artifact.resolve()) for artifact in jgo.resolve(CONVERTER)]
        JARS.write_text("".join(f"{jar}\n" for jar in fetched))
