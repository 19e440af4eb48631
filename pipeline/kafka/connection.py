"""Connects clients to Kafka; every failure becomes a `ClusterError` with a one-line message."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
)

from pipeline.kafka.access.rights import Operation, Right
from pipeline.kafka.errors import ClusterError, NotAllowed, Refused
from pipeline.kafka.probe import why_unreachable
from pipeline.settings import Settings

CONNECT_SECONDS = 5
STOP_SECONDS = 2
GONE = (KafkaTimeoutError, LeaderNotAvailableError, NotLeaderForPartitionError)
NOT_CONNECTED = (KafkaConnectionError, NodeNotReadyError)
# what aiokafka's SCRAM raises when the server does not prove that it knows the password
IMPOSTOR = (ValueError, AssertionError, KeyError)


OPERATIONS: Mapping[type, Operation] = {
    AIOKafkaProducer: Operation.WRITE,
    AIOKafkaConsumer: Operation.READ,
}
"""The operation that each kind of client lacks when Kafka denies authorization."""


class Startable(Protocol):
    """A client that is started and stopped, as aiokafka's are."""

    async def start(self) -> Any:
        """Connect."""

    async def stop(self) -> Any:
        """Disconnect."""


Client = TypeVar("Client", bound=Startable)


@asynccontextmanager
async def connected(client: Client, settings: Settings) -> AsyncIterator[Client]:
    """Start a client, stop it at the end, and translate the Kafka errors raised meanwhile."""
    operation = OPERATIONS.get(type(client), Operation.DESCRIBE)
    try:
        await start(client, settings)
        yield client
    except NOT_CONNECTED:
        raise await why_unreachable(settings) from None
    except KafkaError as error:
        raise in_our_words(error, settings, operation) from error
    finally:
        await stop(client)


async def stop(client: Startable) -> None:
    """Stop a client, even when Kafka is gone.

    In that case aiokafka 0.14's producer waits forever to flush, and its consumer raises the
    cancellation of one of its own tasks as if the caller had been cancelled.
    """
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await client.stop()
    except TimeoutError:
        return
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise


async def start(client: Startable, settings: Settings) -> None:
    """Start a client; on failure raise a `ClusterError` that names the cause.

    aiokafka 0.14 leaves a connection open if it is cancelled while connecting. When this is
    cancelled, the client therefore gets some time to connect; the caller then stops it.
    """
    starting = asyncio.create_task(client.start())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=STOP_SECONDS)
        raise
    except (TimeoutError, *IMPOSTOR):
        raise await why_unreachable(settings) from None
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


def in_our_words(error: KafkaError, settings: Settings, operation: Operation) -> ClusterError:
    """A Kafka error as a `ClusterError`; `operation` is what the client was doing."""
    at = f"Kafka at {', '.join(settings.bootstrap_servers)}"
    if isinstance(error, GONE):
        return Refused(f"{at} no longer answers")
    if isinstance(error, GroupAuthorizationFailedError):
        return NotAllowed(settings, [Right(operation, "group")])
    if isinstance(error, TopicAuthorizationFailedError):
        names = error.args[0] if error.args else ()
        topics = [names] if isinstance(names, str) else sorted(names)
        if topics:
            prefix = f"{settings.prefix}."
            rights = [Right(operation, "topic", name.removeprefix(prefix)) for name in topics]
            return NotAllowed(settings, rights)
    return Refused(f"{at} says: {error}")
