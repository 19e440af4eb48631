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
