"""Runs Faust's consumer on the loop of the agents instead of in a thread.

In Faust 0.15.3 every fetch goes to another thread and back through queues. While the agents are
busy, each of these steps may wait 5 ms for the interpreter's lock.

And when a rebalance begins while the app stops, Faust closes the connection at once, even during a
commit, and does not leave the group. aiokafka 0.14 waits for the end of the rebalance before it
leaves, and Kafka may be waiting for another member.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import LeaveGroupRequest
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from mode import Service
from mode.utils.futures import maybe_async

from pipeline.batched.fetching import ends_of_all, fetch_soon
from pipeline.batched.membership import Membership

if TYPE_CHECKING:
    from pipeline.batched.app import BatchedApp
    from pipeline.batched.consumer import BatchConsumer

LEAVING = "leaving"  # a separate connection, beside aiokafka's for the group and for fetches


class InLoopConsumer(AIOKafkaConsumerThread):
    """Faust's consumer thread without the thread."""

    consumer: "BatchConsumer"

    def __init__(self, consumer: "BatchConsumer", **kwargs: Any) -> None:
        super().__init__(consumer, thread_loop=consumer.loop, **kwargs)
        self.membership: Membership | None = None  # once connected

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        """Create a consumer that does not read records of aborted transactions.

        Faust 0.15.3 sets `read_committed` only if it writes in transactions itself.
        """
        kafka = super()._create_worker_consumer(transport)
        kafka._isolation_level = "read_committed"
        return kafka

    async def _highwaters(self, partitions: list[TP]) -> dict[TP, int]:
        """Return the end offsets of partitions, records of open transactions included.

        Records that an instance wrote to a changelog after somebody's open transaction have to be
        restored too, although that waits for the end of the transaction.
        """
        return await ends_of_all(self._ensure_consumer(), partitions)

    async def on_start(self) -> None:
        """Connect."""
        await super().on_start()
        fetch_soon(self._consumer)
        self.membership = Membership(
            self._consumer,
            is_leaving=lambda: self.should_stop,
            fence=cast("BatchedApp", self.app).fence,
        )

    async def start(self) -> None:
        """Start like any service."""
        self._thread_started.set()
        await Service.start(self)

    async def stop(self) -> None:
        """Leave the group, and stop like any service."""
        if self._started.is_set() and not self._stopped.is_set():
            self._stopped.set()
            if self._consumer is not None:
                await self._leave_group(self._consumer)
                await self._consumer.stop()
            await self._default_stop_futures()
            self._shutdown.set()

    async def call_thread(
        self, fun: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> Any:
        """Await it on the current loop."""
        return await maybe_async(fun(*args, **kwargs))

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Notify the consumer; while the app stops, wait instead, as it still has to commit."""
        if self.app.should_stop:
            await asyncio.Event().wait()  # until `_leave_group`
        await self.consumer.on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Notify the consumer, unless the app stops."""
        if not self.app.should_stop and self.membership is not None:
            self.membership.begin()
            await self.consumer.on_partitions_assigned(assigned, generation_id)

    async def _leave_group(self, kafka: AIOKafkaConsumer) -> None:
        """Leave the group, also during a rebalance, so that the other members need not wait."""
        coordinator = kafka._coordinator
        if coordinator is None:
            return  # not started
        coordinator._coordination_task.cancel()
        await asyncio.wait([coordinator._coordination_task])
        if self.app.conf.consumer_group_instance_id is not None:
            return  # a static member keeps its partitions until the session times out
        while coordinator.member_id:
            await coordinator.ensure_coordinator_known()
            request = LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
            try:
                await kafka._client.send(coordinator.coordinator_id, request, group=LEAVING)
            except KafkaError:
                coordinator.coordinator_dead()
            else:
                coordinator.reset_generation()  # otherwise aiokafka would leave again
