"""Connects a client to Kafka; whatever is wrong comes out as a `ClusterError` of one line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
)

from pipeline.kafka.errors import Refused, Unreachable
from pipeline.settings import Settings

CONNECT_SECONDS = 5
STOP_SECONDS = 2
GONE = (KafkaTimeoutError, LeaderNotAvailableError, NotLeaderForPartitionError)


class Startable(Protocol):
    """A client: aiokafka's own are such."""

    async def start(self) -> Any:
        """Connect."""

    async def stop(self) -> Any:
        """Disconnect."""


Client = TypeVar("Client", bound=Startable)


@asynccontextmanager
async def connected(client: Client, settings: Settings) -> AsyncIterator[Client]:
    """Start a client, stop it in the end, and translate what it raises in between."""
    addresses = settings.bootstrap_servers
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.start()
        except TimeoutError:
            raise Unreachable(settings) from None
        yield client
    except KafkaConnectionError:
        raise Unreachable(settings) from None
    except GONE:
        raise Refused(f"Kafka at {', '.join(addresses)} no longer answers") from None
    except KafkaError as error:
        raise Refused(f"Kafka at {', '.join(addresses)} says: {error}") from error
    finally:
        # aiokafka 0.14's producer waits for ever for a Kafka that is gone to take the rest
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await client.stop()
