"""What tests of several areas share: one real Kafka for the whole run."""

from collections.abc import Iterator

import pytest

from pipeline.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """An empty Kafka; tests keep out of each other's way with a prefix of their own."""
    with EmbeddedBroker() as running:
        yield running
