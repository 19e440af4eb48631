"""One gateway for two projects, each with an instance, for all tests that do not disturb it."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from sbic.local.broker import EmbeddedBroker
from tests.gateway.client import GatewayClient, new_project, running_gateway
from tests.instances import instance


@pytest_asyncio.fixture(scope="package")
async def gateway(broker: EmbeddedBroker) -> AsyncIterator[GatewayClient]:
    """A gateway in this process, without a token: signs first, then pets."""
    signs = await new_project(broker, lease_seconds=1000.0)
    pets = await new_project(broker, classes="cat,dog,bird")
    with (
        instance(broker.url, signs.prefix) as one,
        instance(broker.url, pets.prefix) as two,
    ):
        await asyncio.to_thread(one.wait_ready)
        await asyncio.to_thread(two.wait_ready)
        async with running_gateway([signs, pets]) as client:
            await client.until_ready()
            yield client
