"""Says when Kafka does not answer any more, and when it does again; clients reconnect silently."""

import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from mode import Service

log = logging.getLogger("sbic")


class Connection(Service):
    """Watches the connections of the group's consumer: its heartbeats keep them in use."""

    def __init__(
        self, servers: str, consumer: Callable[[], AIOKafkaConsumer | None], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.servers = servers
        self.consumer = consumer
        self.lost = False
        self.made = False

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(1.0)
            consumer = self.consumer()
            if consumer is not None and not consumer._closed and not self.should_stop:
                self._see(any(c.connected() for c in consumer._client._conns.values()))

    def _see(self, connected: bool) -> None:
        if self.lost and connected:
            log.info("Kafka answers again")
        elif self.made and not self.lost and not connected:
            log.warning("Kafka at %s does not answer; trying again until it does", self.servers)
        self.made |= connected
        self.lost = self.made and not connected
