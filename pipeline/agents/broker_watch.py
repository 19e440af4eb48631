"""Logs when Kafka stops answering, and when it answers again; clients reconnect silently."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mode import Service

from pipeline.batched.connections import Connections

log = logging.getLogger("sbic")


class BrokerWatch(Service):
    """Watches the connections of the group's consumer, which its heartbeats keep in use.

    `why_denied` returns why Kafka refuses this client, or None if it just does not answer.
    """

    def __init__(
        self,
        servers: str,
        connections: Callable[[], Connections | None],
        why_denied: Callable[[], Awaitable[str | None]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servers = servers
        self.connections = connections
        self.why_denied = why_denied
        self.logged: str | None = None
        self.is_lost = False
        self.was_connected = False

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(1.0)
            if not self.should_stop:
                self.look()
                await self.explain()

    async def explain(self) -> None:
        """Log once why Kafka refuses this client, if it does."""
        why = await self.why_denied() if self.is_lost else None
        if why is not None and why != self.logged:
            log.warning("%s; trying again until that is mended", why)
        self.logged = why

    def look(self) -> None:
        """Log a lost or regained connection; a consumer with partitions was connected before."""
        connections = self.connections()
        if connections is None:
            return
        is_connected, has_partitions = connections
        self.was_connected = self.was_connected or is_connected or has_partitions
        is_lost = self.was_connected and not is_connected
        if is_lost and not self.is_lost:
            log.warning("Kafka at %s does not answer; trying again until it does", self.servers)
        elif self.is_lost and not is_lost:
            log.info("Kafka answers again")
        self.is_lost = is_lost
