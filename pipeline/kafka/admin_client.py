"""The admin client: connected, with Kafka's errors as `ClusterError`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code

from pipeline.kafka.connection import connected
from pipeline.kafka.errors import Unreachable
from pipeline.kafka.options import client_options
from pipeline.settings import Settings

ANSWER_SECONDS = 30


@asynccontextmanager
async def connected_admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client for the block; every error of Kafka becomes a `ClusterError`."""
    admin = AdminClient(settings)
    async with connected(admin, settings):
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                yield admin.client
        except TimeoutError:
            raise Unreachable(settings) from None


class AdminClient:
    """aiokafka's admin client with the `start` and `stop` that its other clients have."""

    def __init__(self, settings: Settings) -> None:
        milliseconds = ANSWER_SECONDS * 1000
        options = client_options(settings)
        self.client = AIOKafkaAdminClient(**options, request_timeout_ms=milliseconds)

    async def start(self) -> None:
        """Connect."""
        await self.client.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()


def why(error_code: int, message: str | None) -> str:
    """The name of a Kafka error, with the broker's message if there is one.

    >>> why(36, "Topic 'birds.labels' already exists.")
    "TopicAlreadyExists: Topic 'birds.labels' already exists."
    """
    name = for_code(error_code).__name__.removesuffix("Error")
    return f"{name}: {message}" if message else name
