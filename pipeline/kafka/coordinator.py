"""Asks the broker that coordinates the group of a project."""

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
WAIT_SECONDS = 0.05
# a broker that is new, or was just started, has to make or load its groups first
SOON = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)

T = TypeVar("T")


class Coordinator:
    """A client for requests that the clients of aiokafka 0.14 do not send, or not as needed."""

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
        """What `read` makes of the answer; it raises the errors that are in it."""
        while True:
            try:
                node = await self.client.coordinator_lookup(GROUP_TYPE, self.group)
                return read(await self.client.send(node, request))
            except SOON:
                await asyncio.sleep(WAIT_SECONDS)
