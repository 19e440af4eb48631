"""Sends requests to the coordinator of the project's consumer group."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
from aiokafka.protocol.api import Request

from pipeline.kafka.options import client_options
from pipeline.settings import Settings

GROUP_TYPE = 0
RETRY_SECONDS = 0.05
NOT_READY = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
"""Errors of a broker that was just started and still has to load its groups: retry."""

T = TypeVar("T")


class Coordinator:
    """A client for group requests that aiokafka 0.14 does not send, or not as needed."""

    def __init__(self, settings: Settings) -> None:
        self.group = settings.prefix
        self.client = AIOKafkaClient(**client_options(settings))

    async def start(self) -> None:
        """Connect."""
        await self.client.bootstrap()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()

    async def ask(self, request: Request[Any], read: Callable[[Any], T]) -> T:
        """Send a request and return `read(response)`, which raises the errors in the response."""
        while True:
            try:
                node = await self.client.coordinator_lookup(GROUP_TYPE, self.group)
                return read(await self.client.send(node, request))
            except NOT_READY:
                await asyncio.sleep(RETRY_SECONDS)
