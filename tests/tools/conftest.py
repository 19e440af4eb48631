import asyncio

import pytest

from pipeline.broker.embedded import EmbeddedBroker
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings
from tests.tools.projects import new_project


def made(settings: Settings) -> Settings:
    """The project with these settings."""
    return asyncio.run(open_project(Given.of(settings))).settings


@pytest.fixture
def project(broker: EmbeddedBroker) -> Settings:
    """A project with nothing in its topics."""
    return made(new_project(broker))


@pytest.fixture
def pets(broker: EmbeddedBroker) -> Settings:
    """The same, with classes that have names."""
    return made(new_project(broker, classes="cat,dog,bird"))
