"""Faust's consumer thread without the thread: it fetches on the loop of the agents.

In Faust 0.15.3 every fetch goes to another thread and back through queues. While the agents are
busy each of these steps may wait 5 ms for the interpreter's lock.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from mode import Service
from mode.utils.futures import maybe_async

if TYPE_CHECKING:
    from pipeline.batched.consumer import BatchConsumer


class NoThread(AIOKafkaConsumerThread):
    """Runs what Faust would run in a thread."""

    consumer: "BatchConsumer"

    def __init__(self, consumer: "BatchConsumer", **kwargs: Any) -> None:
        super().__init__(consumer, thread_loop=consumer.loop, **kwargs)

    async def start(self) -> None:
        """Start like any service."""
        self._thread_started.set()
        await Service.start(self)

    async def stop(self) -> None:
        """Leave the group, and stop like any service."""
        if self._started.is_set() and not self._stopped.is_set():
            self._stopped.set()
            if self._consumer is not None:
                await self._consumer.stop()
            await self._default_stop_futures()
            self._shutdown.set()

    async def call_thread(
        self, fun: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> Any:
        """Just call it."""
        return await maybe_async(fun(*args, **kwargs))

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Tell the consumer."""
        await self.consumer.on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Tell the consumer."""
        await self.consumer.on_partitions_assigned(assigned, generation_id)
