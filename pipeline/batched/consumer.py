"""Hands an agent one event per fetch, each record once and in order, and commits what is done.

All partitions of a topic that a fetch has brought come as one event: with an event for each, at a
low rate most of the time would go into events, and groups to publish would be smaller.

Faust 0.15.3 creates two asyncio tasks per event and finds the offset to commit in a list of all
acked offsets, in which a gap can mark a record as acked too early. It acks an event when it leaves
the agent, also when an exception or a cancellation takes it out: what was not published would be
committed, and lost. Here an agent says itself when a batch is finished, and since the batches of a
partition come in order, the offset to commit is the end of the last one.

Around a rebalance Faust fetches before it has sought the committed offsets, and while; it drops
what it has fetched at the wrong moment, though the position has moved on; and it empties the
agents' queues once more after that seek. Here two sets of facts decide: `next_offset` says what
follows in a partition, from the moment on at which it can be handed out, and nothing else is;
`left_out` says which partitions have moved on without that, and the next fetch goes back.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from aiokafka import ConsumerRecord
from faust.transport.consumer import ensure_TP
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import TP, ConsumerMessage

from pipeline.batched.batch import Batch, message_of
from pipeline.batched.connections import Connections, connections_of
from pipeline.batched.in_loop_consumer import InLoopConsumer

if TYPE_CHECKING:
    from pipeline.batched.app import BatchedApp


WHILE_BEHIND_SECONDS = 0.01


class PartitionLag(NamedTuple):
    """How many records of a partition are not finished, and since when.

    `since` is the timestamp of the first of them if it is handed out, else that of the last record
    finished before it; None if neither is known.
    """

    topic: str
    partition: int
    records: int
    since: int | None


class Gap(NamedTuple):
    """Offsets that are missing between two batches of a partition."""

    expected: int
    found: int


class BatchConsumer(Consumer):
    """Faust's consumer on aiokafka, a batch at a time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.finished: dict[TP, int] = {}  # the offset after the last batch done
        # the timestamp of the first record that waits, or of the last done before it
        self.waiting: dict[TP, int] = {}
        self.next_offset: dict[TP, int] = {}  # after the last batch handed out
        self.sought: dict[TP, int] = {}  # where to begin once the flow is resumed
        self.left_out: set[TP] = set()  # fetched and not handed out
        self.gaps: dict[TP, Gap] = {}
        self.read_to: dict[TP, int] = {}  # in recovery: all changelog records below are handed out
        self.rebalances = 0
        self.joined = False
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return InLoopConsumer(self, loop=self.loop, beacon=self.beacon)

    @property
    def expulsions(self) -> int:
        """How often Kafka has put this instance out of the group."""
        membership = cast(InLoopConsumer, self._thread).membership
        return 0 if membership is None else membership.expulsions

    async def getmany(
        self,
        timeout: float,  # noqa: ASYNC109  # Faust calls it so
    ) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Fetch, and yield one message for each topic that has records.

        While an agent is behind, Faust fetches without its partitions, and if there is nothing else
        it waits for as long as it may, though the agent may have caught up.
        """
        if self._buffered_partitions:
            timeout = min(timeout, WHILE_BEHIND_SECONDS)
        self._go_back()
        if self.app.in_recovery:
            self._note_positions()
        records, active = await self._wait_next_records(timeout)
        if not records or self.should_stop:
            return
        self.left_out.update(map(ensure_TP, records))
        fetched_in = self.rebalances
        for batch in self._batches(records, active):
            if not self.flow_active or self.rebalances != fetched_in:
                return
            for tp, fetched in batch.parts.items():
                self.next_offset[tp] = fetched[-1].offset + 1
                self.waiting.setdefault(tp, fetched[0].timestamp)
            self.left_out.difference_update(batch.parts)
            message = message_of(batch, self.app.consumer_generation_id)
            self._read_offset[message.tp] = None  # else Faust drops what is fetched again
            yield message.tp, message

    def _go_back(self) -> None:
        """Fetch again what was left out, of the partitions of which that is allowed by now."""
        if self.left_out:
            for tp in self.left_out & self.next_offset.keys() & self.assignment():
                self._thread.seek(tp, self.next_offset[tp])
                self.left_out.discard(tp)

    def _note_positions(self) -> None:
        """All that was fetched before is handed out or left out by now.

        A position also passes offsets without a record, such as a transaction's marker.
        """
        kafka = self._thread._ensure_consumer()
        for tp in self.assignment() - self.left_out:
            if tp in self.next_offset and self._is_changelog_tp(tp):
                state = kafka._subscription.subscription.assignment.state_value(tp)
                if state.has_valid_position:
                    self.read_to[tp] = state.position

    def _batches(
        self, records: Mapping[Any, list[ConsumerRecord]], active: set[TP] | None
    ) -> Iterable[Batch]:
        """One batch for each topic; of a changelog one for each partition, as recovery counts."""
        batches: dict[str | TP, Batch] = {}
        for partition, fetched in records.items():
            tp = ensure_TP(partition)
            if active is None or tp in active or tp in self._buffered_partitions:
                in_order = self._in_order(tp, fetched)
                if in_order:
                    key = tp if self._is_changelog_tp(tp) else tp.topic
                    batches.setdefault(key, Batch({}, self)).parts[tp] = in_order
        return batches.values()

    def _in_order(self, tp: TP, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records that follow on those handed out before; none if some are missing between.

        If the same are missing when they are fetched again, the gap is Kafka's own: a
        transaction's marker, or expired records.
        """
        expected = self.next_offset.get(tp)
        if expected is None:
            return []
        first = records[0].offset
        if first <= expected:
            self.gaps.pop(tp, None)
            return records if first == expected else [r for r in records if r.offset >= expected]
        gap = Gap(expected, first)
        if self.gaps.pop(tp, None) == gap:
            return records
        self.gaps[tp] = gap
        return []

    async def perform_seek(self) -> None:
        """Seek to the committed offsets, to begin there once Faust has resumed the flow."""
        begun = self.rebalances
        await super().perform_seek()
        if self.joined and self.rebalances == begun:
            self.sought = {
                tp: self._read_offset[tp] or 0
                for tp in self.assignment()
                if not self._is_changelog_tp(tp)
            }

    def resume_flow(self) -> None:
        """From here on what is handed out stays in the agents' queues."""
        super().resume_flow()
        self.next_offset.update(self.sought)
        self.sought.clear()

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek where a table's recovery begins, and expect the records from there on."""
        self.next_offset.update(partitions)
        self.read_to.clear()
        await super().seek_wait(partitions)

    def finish(self, batch: Batch) -> None:
        """All of the batch is published: its end can be committed."""
        for tp, records in batch.parts.items():
            end = self.finished[tp] = records[-1].offset + 1
            if self.next_offset.get(tp) == end:
                self.waiting.pop(tp, None)
            else:
                self.waiting[tp] = records[-1].timestamp

    def _filter_tps_with_pending_acks(self, topics: Iterable[Any] | None = None) -> Iterator[TP]:
        return (tp for tp in self.finished if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self.finished.get(tp)

    def on_buffer_full(self, tp: TP) -> None:
        """An agent is behind: fetch no more of its topic until it has caught up."""
        for partition in self._partitions_of(tp.topic):
            super().on_buffer_full(partition)

    def on_buffer_drop(self, tp: TP) -> None:
        """The agent has caught up."""
        for partition in self._partitions_of(tp.topic):
            super().on_buffer_drop(partition)

    def _partitions_of(self, topic: str) -> list[TP]:
        return [tp for tp in self.assignment() if tp.topic == topic]

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust would complain of partitions that are never first in a batch."""

    async def wait_empty(self) -> None:
        """Before a rebalance or the end: all that was taken is published, then committed."""
        await super().wait_empty()
        await cast("BatchedApp", self.app).wait_idle()
        await self.maybe_wait_for_commit_to_finish()  # else Faust takes that one for this
        await self.commit()

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Offsets between batches do not matter: there is no list of acked offsets."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Let Faust finish and commit the batches under way, then forget the partitions.

        Faust 0.15.3 drops what is acked and not committed before it commits; `finished` stays.
        """
        self._forget(joined=False)
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self.finished.pop(tp, None)
            self.waiting.pop(tp, None)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Let Faust recover; what an earlier recovery that is still at work has found is void."""
        self._forget(joined=True)
        await super().on_partitions_assigned(assigned, generation_id)

    def _forget(self, *, joined: bool) -> None:
        """Hand out nothing until the tables of the new assignment are recovered."""
        self.joined = joined
        self.rebalances += 1
        self.next_offset.clear()
        self.sought.clear()
        self.gaps.clear()
        self.read_to.clear()

    def connections(self) -> Connections | None:
        """Return the state of the connections; None before start and after stop."""
        kafka = self._thread._consumer
        return None if kafka is None else connections_of(kafka)

    def lags(self) -> Iterator[PartitionLag]:
        """Return the lag of each partition that agents read.

        A partition's lag is unknown before its first fetch. Offsets without a record, such as a
        transaction's marker, do not count: once all that was handed out is finished, everything
        below the position is finished too.
        """
        kafka = self._thread._consumer
        if kafka is None:
            return  # not started yet
        for tp in self.assignment():
            fetched = kafka._subscription.subscription.assignment.state_value(tp)
            end = fetched.lso  # records of open transactions, which follow it, cannot be read yet
            if end is None or self._is_changelog_tp(tp):
                continue
            if tp in self.waiting or tp in self.left_out or not fetched.has_valid_position:
                done = self.finished.get(tp) or self._committed_offset[tp] or 0
            else:
                done = fetched.position
            records = max(0, end - done)
            yield PartitionLag(tp.topic, tp.partition, records, self.waiting.get(tp))
