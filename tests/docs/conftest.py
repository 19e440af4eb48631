"""What the examples of the documents run on: two projects on one Kafka, each with an instance."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from tests.instances import RunningInstance, instance
from tests.projects import made, new_project


class DocumentedProject(NamedTuple):
    """A project that the documents speak of, and the instance that runs it."""

    settings: Settings
    instance: RunningInstance


@pytest.fixture(scope="package")
def signs(broker: EmbeddedBroker) -> Iterator[DocumentedProject]:
    """The project `sbic` of the documents."""
    yield from _shown(broker)


@pytest.fixture(scope="package")
def named(broker: EmbeddedBroker) -> Iterator[DocumentedProject]:
    """The project `pets` of the documents."""
    yield from _shown(broker, classes="cat,dog,bird")


def _shown(broker: EmbeddedBroker, **settings: str) -> Iterator[DocumentedProject]:
    project = made(replace(new_project(broker, **settings), lease_seconds=3600.0))
    with instance(broker.url, project.prefix) as running:
        running.wait_ready()
        yield DocumentedProject(project, running)
