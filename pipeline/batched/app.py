"""An app that any unexpected error ends at once, with nothing acked.

Faust 0.15.3 restarts an agent that raised, after acking what it raised on; and a service that
crashed takes the rest down in an order in which offsets may still be committed.
"""

from asyncio import CancelledError
from typing import Any

import faust
from faust.types import AgentT

from pipeline.batched.fence import Fence
from pipeline.batched.group_publisher import GroupPublisher
from pipeline.batched.recovery import BatchTableManager
from pipeline.batched.stop import abort
from pipeline.batched.transport import BatchTopic

REQUEST_SECONDS = 60.0


class BatchedApp(faust.App):
    """A Faust app on batches, whose errors end the process with status 70."""

    def __init__(self, app_id: str, session_seconds: float = 10.0, **options: Any) -> None:
        super().__init__(
            app_id,
            Topic=BatchTopic,
            TableManager=BatchTableManager,
            store="memory://",
            web_enabled=False,  # its pages show tables and routes, and `/` always says OK
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,  # a memory store replays all on start anyway
            consumer_auto_offset_reset="earliest",
            stream_wait_empty=True,  # on stop and on revoke, batches under way are finished
            stream_buffer_maxsize=4,  # batches, not records
            broker_max_poll_records=4000,  # of a batch
            broker_commit_interval=1.0,
            broker_session_timeout=session_seconds,
            broker_heartbeat_interval=2.0,
            broker_request_timeout=max(REQUEST_SECONDS, session_seconds),  # Faust insists
            # a broker that has just come back may not know its topics yet: look again soon
            consumer_metadata_max_age_ms=5_000,
            **options,
        )
        self.publishers: list[GroupPublisher[Any]] = []
        self.fence = Fence(session_seconds)

    async def on_first_start(self) -> None:
        """Start the publishers."""
        await super().on_first_start()
        for publisher in self.publishers:
            await self.add_runtime_dependency(publisher)

    async def wait_idle(self) -> None:
        """Wait until all that agents have made of their batches is published."""
        for publisher in self.publishers:
            await publisher.wait_idle()

    async def leave(self) -> None:
        """Finish, publish and commit the batches under way, then leave the group.

        Nothing else is worth waiting for: whatever still runs has nothing to lose. Of an app that
        has not joined the group nothing is under way.
        """
        self._stopped.set()
        if self._consumer is not None and self._consumer.started:
            await self._stop_consumer()
            await self._consumer.stop()

    def _create_directories(self) -> None:
        """None: Faust 0.15.3 makes folders for tables even where they are in memory."""

    async def _on_agent_error(self, agent: AgentT[Any], exc: BaseException) -> None:
        abort(exc)

    def _crash(self, reason: BaseException) -> None:
        if isinstance(reason, CancelledError):  # how Faust restarts its fetcher on a rebalance
            super()._crash(reason)
        else:
            abort(reason)
