"""What tests of several areas share: one real Kafka for the whole run."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from pipeline.local.embedded import EmbeddedBroker
from pipeline.settings import Settings
from pipeline.warm_up import warm_up
from tests.projects import made, new_project

# No test asserts a time: the first example may compile, and the machine may be busy.
settings.register_profile("sbic", deadline=None)
settings.load_profile("sbic")


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Commands that tests run then find everything compiled, and have nothing to say of it."""
    warm_up()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """An empty Kafka; tests keep out of each other's way with a prefix of their own."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def project(broker: EmbeddedBroker) -> Settings:
    """A project with nothing in its topics."""
    return made(new_project(broker))


@pytest.fixture
def pets(broker: EmbeddedBroker) -> Settings:
    """The same, with classes that have names."""
    return made(new_project(broker, classes="cat,dog,bird"))
