"""Projects for a gateway to serve."""

from typing import Any
from uuid import uuid4

from pipeline.local.embedded import EmbeddedBroker
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings


async def new_project(broker: EmbeddedBroker, **settings: Any) -> Settings:
    """Create a new project: its topics, with no records."""
    prefix = f"gateway-{uuid4().hex[:8]}"
    made = Settings(broker=broker.url, prefix=prefix, partitions=3, **settings)
    return (await open_project(Given.of(made))).settings
