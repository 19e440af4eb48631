"""Shared by all tests: one real Kafka for the whole run, and which tests need it."""

import os
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

# Fixtures that start Kafka or a browser. A test that depends on one is marked `broker`; a test that
# starts Kafka in its body has the mark itself.
STARTING = {"broker", "own_broker", "cluster", "browser"}
TIMEOUTS = {"broker": 300, "long": 600}  # seconds, where a test has no `timeout` of its own
# Java ends at once with a message that has this option in it.
REFUSE_JAVA = "--this-test-starts-Kafka-and-needs-the-mark-broker"


def pytest_configure(config: pytest.Config) -> None:
    """Let no test of a run without `broker` tests start Kafka, in whichever process."""
    if "not broker" in config.option.markexpr:
        os.environ["JDK_JAVA_OPTIONS"] = REFUSE_JAVA


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Kafka or a browser, by their fixtures, and set timeouts."""
    for item in items:
        if STARTING.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("broker")
        seconds = [TIMEOUTS[mark.name] for mark in item.iter_markers() if mark.name in TIMEOUTS]
        if seconds and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(seconds)))


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
