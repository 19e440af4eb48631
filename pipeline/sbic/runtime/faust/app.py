"""An app, and its process: ends on any unexpected error, without committing what failed.

Faust 0.15.3 restarts an agent that raised, after acking the event that it raised on. When a
service crashes, it stops the others in an order in which offsets may still be committed.
"""

import signal
from abc import abstractmethod
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, cast

import faust
from aiokafka.cluster import ClusterMetadata
from faust.assignor.partition_assignor import (
    MemberAssignmentMapping,
    MemberMetadataMapping,
    PartitionAssignor,
)
from faust.types import AgentT
from mode.utils.futures import maybe_cancel

from sbic.instance.publication import Outbox
from sbic.runtime.faust.consumer import (
    BatchConsumer,
    BatchTopic,
    Connections,
    PartitionLag,
    PartitionProgress,
)
from sbic.runtime.faust.groups import GroupPublisher
from sbic.runtime.faust.producer import Fence, Offsets
from sbic.runtime.faust.recovery import BatchRecovery, BatchTable, BatchTableManager
from sbic.runtime.faust.stop import abort

REQUEST_SECONDS = 60.0


class FirstPartitions(PartitionAssignor):
    """Assigns the partitions that the app counts on; Faust 0.15.3 assigns all that there are."""

    def assign(
        self, cluster: ClusterMetadata, member_metadata: MemberMetadataMapping
    ) -> MemberAssignmentMapping:
        """Return the partitions of each member."""
        known = _Known(cluster, self.app.conf.topic_partitions)
        return super().assign(cast(ClusterMetadata, known), member_metadata)


class _Known(NamedTuple):
    """What an assignor asks the cluster, without partitions that somebody has added."""

    cluster: ClusterMetadata
    partitions: int

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions of a topic; none if it does not exist."""
        found = self.cluster.partitions_for_topic(topic) or ()
        return {partition for partition in found if partition < self.partitions}


class BatchedApp(faust.App):
    """A Faust app on batches; an unexpected error ends its process with status 70."""

    def __init__(self, app_id: str, session_seconds: float = 10.0, **options: Any) -> None:
        super().__init__(
            app_id,
            Topic=BatchTopic,
            TableManager=BatchTableManager,
            PartitionAssignor=FirstPartitions,
            store="memory://",
            web_enabled=False,  # Faust's pages show tables and routes, and `/` always says OK
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,  # a memory store replays the whole changelog anyway
            consumer_auto_offset_reset="earliest",
            stream_wait_empty=True,  # finish the batches in flight on stop and on revoke
            stream_buffer_maxsize=4,  # batches, not records
            broker_max_poll_records=4000,  # in a batch
            broker_commit_interval=1.0,
            broker_session_timeout=session_seconds,
            broker_heartbeat_interval=2.0,
            broker_request_timeout=max(REQUEST_SECONDS, session_seconds),  # Faust requires it
            # a broker that has just restarted may not know its topics yet: ask again soon
            consumer_metadata_max_age_ms=5_000,
            **options,
        )
        self.publishers: list[GroupPublisher[Any]] = []
        self.fence = Fence(session_seconds)

    def add_publisher(self, publisher: GroupPublisher[Any]) -> None:
        """Start this publisher with the app, and flush it before each commit on revoke and stop."""
        self.publishers.append(publisher)

    async def on_first_start(self) -> None:
        """Start the publishers."""
        await super().on_first_start()
        for publisher in self.publishers:
            await self.add_runtime_dependency(publisher)

    async def wait_idle(self) -> None:
        """Wait until the results of all batches that agents have taken are published."""
        for publisher in self.publishers:
            await publisher.wait_idle()

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """Note in the tables what this instance has written to their changelogs."""
        for table in self.tables.values():
            if isinstance(table, BatchTable):
                table.wrote(outbox, offsets)

    def mark_stale(self) -> None:
        """Discard the state of all tables when this instance joins the group again."""
        cast(BatchTableManager, self.tables).mark_stale()

    async def leave(self) -> None:
        """Finish, publish and commit the batches in flight, then leave the group.

        Other services need not stop in order: they hold nothing that could be lost. Before joining,
        nothing is in flight.
        """
        self._stopped.set()
        if self._consumer is not None and self._consumer.started:
            await self._stop_consumer()
            await self._consumer.stop()

    @property
    def recovery(self) -> BatchRecovery:
        """The recovery of the tables."""
        return cast(BatchTableManager, self.tables).recovery

    @property
    def expulsions(self) -> int:
        """How often Kafka has removed this instance from the group."""
        return 0 if self._batch_consumer is None else self._batch_consumer.expulsions

    def lags(self) -> Iterator[PartitionLag]:
        """Return the lag of each partition that agents read."""
        if self._batch_consumer is not None:
            yield from self._batch_consumer.lags()

    def standing(self) -> Iterator[PartitionProgress]:
        """Return how far each partition is that agents read."""
        if self._batch_consumer is not None:
            yield from self._batch_consumer.standing()

    @property
    def rebalances(self) -> int:
        """How often partitions were revoked or assigned."""
        return 0 if self._batch_consumer is None else self._batch_consumer.rebalances

    def connections(self) -> Connections | None:
        """Return the state of the consumer's connections; None before start and after stop."""
        return None if self._batch_consumer is None else self._batch_consumer.connections()

    @property
    def _batch_consumer(self) -> BatchConsumer | None:
        return cast(BatchConsumer | None, self._consumer)  # Faust creates it when it is first used

    def _create_directories(self) -> None:
        """Create none: Faust 0.15.3 creates folders even for tables in memory."""

    async def _on_agent_error(self, agent: AgentT[Any], exc: BaseException) -> None:
        abort(exc)

    def _crash(self, reason: BaseException) -> None:
        if isinstance(reason, CancelledError):  # Faust restarts its fetcher so on a rebalance
            super()._crash(reason)
        else:
            abort(reason)


# Runs an app as a process that stops in order on SIGTERM and SIGINT, within a time limit.
#
# On a signal, the worker of Faust 0.15.3 (mode) stops one service after the other and sleeps for
# two seconds; it has no time limit, and it prints a banner and a spinner.


STOP_SECONDS = 9  # supervisors commonly kill after 10


class BatchedWorker(faust.Worker):
    """Faust's worker, which leaves the group on a signal and then calls `end`.

    A subclass decides how the process ends, and what it logs.
    """

    app: BatchedApp

    def __init__(self, app: BatchedApp) -> None:
        super().__init__(
            app, quiet=True, override_logging=False, redirect_stdouts=False, loglevel="WARN"
        )
        self.spinner = None

    @abstractmethod
    def signalled(self) -> None:
        """Do what SIGTERM and SIGINT need, before the app stops."""

    @abstractmethod
    def stopping(self) -> None:
        """Do what is needed once, when the app begins to stop."""

    @abstractmethod
    def stopped(self, error: Exception | None) -> NoReturn:
        """End the process: the app has left the group, or failed to."""

    @abstractmethod
    def stopped_late(self) -> NoReturn:
        """End the process: the app has not left the group within `STOP_SECONDS`."""

    @property
    def is_stopping(self) -> bool:
        """Whether the app has begun to stop."""
        return bool(self._signal_stop_time)

    def stop_soon(self) -> None:
        """Begin to stop, as on SIGTERM."""
        self._schedule_shutdown(signal.SIGTERM)

    def _on_sigterm(self) -> None:
        self.signalled()
        super()._on_sigterm()

    def _on_sigint(self) -> None:
        self.signalled()
        super()._on_sigint()

    def _schedule_shutdown(self, received: signal.Signals) -> None:
        if not self.is_stopping:
            self.stopping()
            self.loop.call_later(STOP_SECONDS, self.stopped_late)
        super()._schedule_shutdown(received)

    async def _stop_on_signal(self, _received: signal.Signals) -> None:
        maybe_cancel(self._starting_fut)  # start nothing more
        try:
            await self.app.leave()
        except Exception as error:
            self.stopped(error)
        self.stopped(None)
