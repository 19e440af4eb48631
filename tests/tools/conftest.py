import asyncio

import pytest

from pipeline.broker.embedded import EmbeddedBroker
from pipeline.kafka.admin import ensure_topics
from pipeline.settings import Settings
from tests.tools.projects import new_project


@pytest.fixture
def project(broker: EmbeddedBroker) -> Settings:
    """A project whose topics are there, and nothing in them."""
    settings = new_project(broker)
    asyncio.run(ensure_topics(settings))
    return settings


@pytest.fixture
def pets(broker: EmbeddedBroker) -> Settings:
    """The same, with classes that have names; the commands have to be told which."""
    settings = new_project(broker, classes="cat,dog,bird")
    asyncio.run(ensure_topics(settings))
    return settings
