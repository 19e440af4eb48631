"""What tests of several areas share: one real Kafka for the whole run."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from pipeline.broker.embedded import EmbeddedBroker
from pipeline.warm_up import warm_up

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
