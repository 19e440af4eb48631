"""Projects for a gateway to serve."""

from typing import Any
from uuid import uuid4

from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings


async def new_project(broker: EmbeddedBroker, **settings: Any) -> Settings:
    """Create a new project: its topics, with no records."""
    prefix = f"gateway-{uuid4().hex[:8]}"
    made = Settings(broker=broker.url, prefix=prefix, partitions=3, **settings)
    return (await open_project(Given.of(made))).settings
