"""Keeps this instance in the group, and logs why Kafka has removed it.

aiokafka 0.14 sends no heartbeat until the listener has returned from `on_partitions_assigned`. With
much state to discard, that can take longer than the session timeout. And it logs a removal only in
the words of the protocol, without the time for which Kafka received no heartbeat.
"""

import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.group import SyncGroupRequest

from pipeline.batched.fence import Fence, now

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
