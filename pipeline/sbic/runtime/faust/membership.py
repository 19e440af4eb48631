"""The membership in the group: kept, and logged when it is lost; Faust's consumer on the loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import READ_UNCOMMITTED
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import LeaveGroupRequest, SyncGroupRequest
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from mode import Service
from mode.utils.futures import maybe_async

from sbic.runtime.faust.producer import Fence, now

if TYPE_CHECKING:
    from sbic.runtime.faust.app import BatchedApp
    from sbic.runtime.faust.consumer import BatchConsumer


# Keeps this instance in the group, and logs why Kafka has removed it.
#
# aiokafka 0.14 sends no heartbeat until the listener has returned from `on_partitions_assigned`.
# With much state to discard, that can take longer than the session timeout. And it logs a removal
# only in the words of the protocol, without the time for which Kafka received no heartbeat.


log = logging.getLogger("sbic")


class Membership:
    """Watches the membership of a consumer in its group, and updates the fence."""

    def __init__(
        self, kafka: AIOKafkaConsumer, is_leaving: Callable[[], bool], fence: Fence
    ) -> None:
        self.coordinator = kafka._coordinator
        self.is_leaving = is_leaving
        self.fence = fence
        self.expulsions = 0  # how often Kafka has removed it from the group
        self._send_req = self.coordinator._send_req
        self._heartbeat = self.coordinator._do_heartbeat
        self._reset = self.coordinator.reset_generation
        self.coordinator._send_req = self.send
        self.coordinator._do_heartbeat = self.heartbeat
        self.coordinator.reset_generation = self.reset

    def begin(self) -> None:
        """Send heartbeats from now on, when this instance has just joined."""
        self.coordinator._start_heartbeat_task()

    async def send(self, request: Any) -> Any:
        """Send a request to the coordinator; a SyncGroup that it takes begins a session."""
        sent = now()
        response = await self._send_req(request)
        if isinstance(request, SyncGroupRequest) and not response.error_code:
            self.fence.heartbeat_taken(sent)
        return response

    async def heartbeat(self) -> bool:
        """Send a heartbeat; return whether Kafka took it."""
        sent = now()
        was_taken: bool = await self._heartbeat()
        if was_taken:
            self.fence.heartbeat_taken(sent)
        return was_taken

    def reset(self) -> None:
        """Forget the generation and the member id; log why, unless this instance is leaving."""
        if self.coordinator.generation > 0 and not self.is_leaving():
            self.expulsions += 1
            log.warning(
                "removed from the group: %s; joining again with the state restored so far",
                self._why(),
            )
        self.fence.lose()
        self._reset()

    @property
    def _has_name(self) -> bool:
        return self.coordinator._group_instance_id is not None

    def _why(self) -> str:
        silent, session = self.fence.silent_seconds, self.fence.session_seconds
        idle = self.coordinator._subscription.fetcher_idle_time
        if silent > session:
            return (
                f"Kafka received no heartbeat for {silent:.1f} s, more than the session timeout of "
                f"{session:g} s"
            )
        if idle >= self.coordinator._max_poll_interval:
            return f"this instance took no records for {idle:.0f} s"
        rebalance = self.coordinator._rebalance_timeout_ms / 1000
        return (
            "Kafka does not know this member: it took longer than "
            f"{rebalance:g} s to join again in a rebalance, or the broker has lost the group"
            + (", or another instance has the same SBIC_INSTANCE_ID" if self._has_name else "")
        )


# Makes aiokafka fetch again soon, so that idle partitions do not delay the others.
#
# aiokafka 0.14 has one fetch in flight per broker, and sends no other for 0.1 s while records of
# the last one are not taken. Faust 0.15.3 takes none while their agent lags, and none of a
# changelog, because it pauses partitions only in its own bookkeeping. So an instance fetches the
# first records of its own changelogs, and records for the agents wait 0.1 s for each of these
# fetches.
#
# And Faust lets Kafka hold an empty fetch for 1.5 s. If all busy partitions have records to be
# taken, the next fetch asks for the idle ones only, and new records for the busy ones wait until it
# ends.


WAIT_UNTIL_TAKEN = 0.005  # seconds; at a low rate records are taken within one
MAX_WAIT_MS = 50  # between fetches of an idle instance: takes 0.03 of a core, 20 ms twice that


def fetch_soon(kafka: AIOKafkaConsumer) -> None:
    """Let a started consumer fetch again soon."""
    kafka._fetcher._prefetch_backoff = WAIT_UNTIL_TAKEN
    kafka._fetcher._fetch_max_wait_ms = MAX_WAIT_MS


async def ends_of_all(kafka: AIOKafkaConsumer, partitions: list[TP]) -> dict[TP, int]:
    """Return the end offsets of partitions, records of open transactions included.

    aiokafka 0.14 gives a consumer with `read_committed` the start of the first open transaction.
    """
    fetcher = copy(kafka._fetcher)
    fetcher._isolation_level = READ_UNCOMMITTED
    ends: dict[TP, int] = await fetcher.end_offsets(partitions, kafka._request_timeout_ms)
    return ends


# Runs Faust's consumer on the loop of the agents instead of in a thread.
#
# In Faust 0.15.3 every fetch goes to another thread and back through queues. While the agents are
# busy, each of these steps may wait 5 ms for the interpreter's lock.
#
# And when a rebalance begins while the app stops, Faust closes the connection at once, even during
# a commit, and does not leave the group. aiokafka 0.14 waits for the end of the rebalance before it
# leaves, and Kafka may be waiting for another member.


CANCEL_SECONDS = 0.1
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
        if kafka._coordinator is None:
            return  # not started
        is_static = self.app.conf.consumer_group_instance_id is not None
        await leave_group(kafka, is_static=is_static)


async def leave_group(kafka: AIOKafkaConsumer, *, is_static: bool) -> None:
    """Leave the group, in whatever state aiokafka's coordination is.

    aiokafka 0.14 loses a cancellation that comes while it stops its heartbeats in a rebalance: it
    would join the group again, and never end. So it is repeated.
    """
    coordinator = kafka._coordinator
    while not coordinator._coordination_task.done():
        coordinator._coordination_task.cancel()
        await asyncio.wait([coordinator._coordination_task], timeout=CANCEL_SECONDS)
    if is_static:
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
