"""Kafka's own console tools, under the names that they have in a Kafka distribution.

`python -m tests.agents.kafka_tools` fetches what the broker does not have of them: one jar. That
is part of `make test`, not of a test.
"""

import os
import shlex
from pathlib import Path
from zipfile import is_zipfile

import jgo
from jgo.config import GlobalSettings

from sbic.local.java import KAFKA_VERSION, java_command

PROJECT = "org.apache.kafka", "kafka-tools", KAFKA_VERSION
CLASSES = {
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


def jar() -> Path:
    """Where the jar of the tools is, once it has been fetched."""
    group, name, version = PROJECT
    cache = Path(GlobalSettings.load().repo_cache)
    return cache.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")


def are_fetched() -> bool:
    """Whether the tools can be run."""
    return is_zipfile(jar())


def install(folder: Path) -> None:
    """Make a script of each tool, which runs it on the Java of the embedded broker."""
    *java, class_path = java_command()
    command = shlex.join([*java, os.pathsep.join([class_path, str(jar())])])
    for name, main_class in CLASSES.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} {main_class} "$@"\n')
        script.chmod(0o755)


if __name__ == "__main__":
    if not are_fetched():
        jar().unlink(missing_ok=True)  # what an interrupted download left behind
        jgo.resolve(":".join(PROJECT))[0].resolve()
