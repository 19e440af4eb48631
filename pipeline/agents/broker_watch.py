"""Says when Kafka does not answer any more, and when it does again; clients reconnect silently."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from mode import Service

log = logging.getLogger("sbic")


class Connection(Service):
    """Watches the connections of the group's consumer: its heartbeats keep them in use.

    `why_denied` finds out what else than silence keeps clients from connecting, if anything.
    """

    def __init__(
        self,
        servers: str,
        consumer: Callable[[], AIOKafkaConsumer | None],
        why_denied: Callable[[], Awaitable[str | None]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servers = servers
        self.consumer = consumer
        self.why_denied = why_denied
        self.said: str | None = None
        self.lost = False
        self.made = False

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(1.0)
            if not self.should_stop:
                self.look()
                await self.explain()

    async def explain(self) -> None:
        """Say once why clients cannot connect, unless Kafka is only away."""
        why = await self.why_denied() if self.lost else None
        if why is not None and why != self.said:
            log.warning("%s; trying again until that is mended", why)
        self.said = why

    def look(self) -> None:
        """See whether a consumer that was connected, or it would have no partitions, still is."""
        consumer = self.consumer()
        if consumer is None or consumer._closed:
            return
        connected = any(c.connected() for c in consumer._client._conns.values())
        self.made = self.made or connected or bool(consumer.assignment())
        lost = self.made and not connected
        if lost and not self.lost:
            log.warning("Kafka at %s does not answer; trying again until it does", self.servers)
        elif self.lost and not lost:
            log.info("Kafka answers again")
        self.lost = lost
