"""Stays a member of the group, and says so when Kafka has put this instance out of it.

aiokafka 0.14 sends no heartbeat until it has told the listener what is assigned, and the listener
has returned. With much to forget before the new partitions begin, that can take longer than Kafka
waits. And it tells of an expulsion in the words of the protocol, at the level of a warning of its
own logger, without saying for how long Kafka had heard nothing.
"""

import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.group import SyncGroupRequest

from pipeline.batched.fence import Fence, now

log = logging.getLogger("sbic")


class Membership:
    """Watches over the place that a consumer has in its group, and tells the fence of it."""

    def __init__(
        self, kafka: AIOKafkaConsumer, is_leaving: Callable[[], bool], fence: Fence
    ) -> None:
        self.coordinator = kafka._coordinator
        self.is_leaving = is_leaving
        self.fence = fence
        self.expulsions = 0  # how often it was put out of the group
        self._send_req = self.coordinator._send_req
        self._heartbeat = self.coordinator._do_heartbeat
        self._reset = self.coordinator.reset_generation
        self.coordinator._send_req = self.send
        self.coordinator._do_heartbeat = self.heartbeat
        self.coordinator.reset_generation = self.reset

    def begin(self) -> None:
        """Send heartbeats from now on: this instance has just joined."""
        self.coordinator._start_heartbeat_task()

    async def send(self, request: Any) -> Any:
        """Send a request to the coordinator; with a SyncGroup that it takes, a session begins."""
        sent = now()
        response = await self._send_req(request)
        if isinstance(request, SyncGroupRequest) and not response.error_code:
            self.fence.heard(sent)
        return response

    async def heartbeat(self) -> bool:
        """Send a heartbeat; whether Kafka took it."""
        sent = now()
        was_taken: bool = await self._heartbeat()
        if was_taken:
            self.fence.heard(sent)
        return was_taken

    def reset(self) -> None:
        """Forget the generation and the member id, and say why unless it was meant to be so."""
        if self.coordinator.generation > 0 and not self.is_leaving():
            self.expulsions += 1
            log.warning(
                "put out of the group: %s; joining again, what is restored is kept", self._why()
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
            return f"Kafka heard nothing of this instance for {silent:.1f} s, and waits {session:g}"
        if idle >= self.coordinator._max_poll_interval:
            return f"this instance took no records for {idle:.0f} s"
        rebalance = self.coordinator._rebalance_timeout_ms / 1000
        return (
            "Kafka does not know this instance any more: it took longer than "
            f"{rebalance:g} s to join again in a rebalance, or the broker has lost the group"
            + (", or another instance has the same name" if self._has_name else "")
        )
