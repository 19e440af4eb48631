"""One pipeline for all tests of the client: a project with an instance and a gateway."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest

from pipeline.broker.embedded import EmbeddedBroker
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings
from tests.gateways import gateway
from tests.instances import instance

TOKEN = "a token that nobody can guess"


@dataclass(frozen=True)
class Crowd:
    """Where the pipeline is."""

    settings: Settings
    gateway: str


@pytest.fixture(scope="session")
def crowd(broker: EmbeddedBroker) -> Iterator[Crowd]:
    settings = Settings(broker=broker.url, prefix=f"client-{uuid4().hex[:8]}")
    asyncio.run(open_project(Given.of(settings)))
    with (
        instance(broker.url, settings.prefix) as running,
        gateway(broker.url, settings.prefix, SBIC_GATEWAY_TOKEN=TOKEN) as gate,
    ):
        running.wait_ready()
        gate.wait_ready()
        yield Crowd(settings, gate.url)


@pytest.fixture(params=["kafka", "http"])
def way(request: pytest.FixtureRequest, crowd: Crowd) -> dict[str, str]:
    """The arguments of a client for either way."""
    if request.param == "kafka":
        return {"address": crowd.settings.broker, "project": crowd.settings.prefix}
    return {"address": crowd.gateway, "token": TOKEN}
