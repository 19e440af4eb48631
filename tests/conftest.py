"""Shared by all tests: one real Kafka for the whole run, and which tests need it."""

import os
import signal
from collections.abc import Iterator

import pytest

from sbic.commands.warm_up import warm_up
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from tests.examples import set_examples
from tests.projects import made, new_project

# Fixtures that start Kafka or a browser. A test that depends on one is marked `broker`; a test that
# starts Kafka in its body has the mark itself.
STARTING = {"broker", "own_broker", "cluster", "browser"}
TIMEOUTS = {"broker": 300, "long": 600}  # seconds, where a test has no `timeout` mark
# Java ends at once with a message that has this option in it.
REFUSE_JAVA = "--this-test-starts-Kafka-and-needs-the-mark-broker"


def pytest_configure(config: pytest.Config) -> None:
    """In a run without `broker` tests, be quick, and let no process start Kafka.

    A shell lets its background jobs ignore Ctrl-C, and so would every command that a test starts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_check = "not broker" in config.option.markexpr
    set_examples(is_quick=is_check)
    if is_check:
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
    """Compile first: otherwise a command that a test runs logs that it compiles."""
    warm_up()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """One Kafka for all tests of this process; each test has a project with a unique prefix."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def project(broker: EmbeddedBroker) -> Settings:
    """A project with nothing in its topics."""
    return made(new_project(broker))


@pytest.fixture
def pets(broker: EmbeddedBroker) -> Settings:
    """A project with named classes and nothing in its topics."""
    return made(new_project(broker, classes="cat,dog,bird"))
