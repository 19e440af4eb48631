"""Whether a consumer is connected to any broker.

aiokafka 0.14 reconnects by itself and offers no way to ask for the state of its connections.
"""

from typing import NamedTuple

from aiokafka import AIOKafkaConsumer


class Connections(NamedTuple):
    """What a consumer's connections look like now."""

    is_connected: bool  # to at least one broker
    has_partitions: bool


def connections_of(kafka: AIOKafkaConsumer) -> Connections | None:
    """Return the state of a consumer's connections, or None once it is closed."""
    if kafka._closed:
        return None
    connections = kafka._client._conns.values()
    is_connected = any(connection.connected() for connection in connections)
    return Connections(is_connected, bool(kafka.assignment()))
