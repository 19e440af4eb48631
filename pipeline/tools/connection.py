"""Connects a tool to Kafka; whatever is wrong comes out as a `ClusterError` of one line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from pipeline.kafka.errors import Refused, Unreachable
from pipeline.settings import Settings

CONNECT_SECONDS = 5

Client = TypeVar("Client", AIOKafkaProducer, AIOKafkaConsumer)


@asynccontextmanager
async def connected(client: Client, settings: Settings) -> AsyncIterator[Client]:
    """Start a client, stop it in the end, and translate what it raises in between."""
    addresses = settings.bootstrap_servers
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.start()
        except TimeoutError:
            raise Unreachable(addresses) from None
        yield client
    except KafkaConnectionError:
        raise Unreachable(addresses) from None
    except KafkaError as error:
        raise Refused(f"Kafka at {', '.join(addresses)} says: {error}") from error
    finally:
        await client.stop()
