"""Tables by partition, and their recovery; runs until caught up or revoked."""

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from aiokafka import ConsumerRecord
from faust import Table
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP, AppT, Message, TopicT
from faust.types.tables import TableManagerT
from mode import Service

from sbic.instance.publication import Outbox
from sbic.runtime.faust.consumer import BatchConsumer, batch_of
from sbic.runtime.faust.producer import Offsets, RemovedFromGroup
from sbic.runtime.faust.stop import abort

if TYPE_CHECKING:
    from sbic.runtime.faust.app import BatchedApp


class RecoveryProgress(NamedTuple):
    """Records read so far, all records, and the time that the rest will take, if known.

    >>> str(RecoveryProgress(read=493_411, total=1_203_441, seconds_to_go=11.9))
    '41 % of 1,203,441 records, about 12 s to go'
    >>> str(RecoveryProgress(read=0, total=1_203_441, seconds_to_go=None))
    '0 % of 1,203,441 records'
    """

    read: int
    total: int
    seconds_to_go: float | None

    def __str__(self) -> str:
        percent = 100 * self.read // self.total if self.total else 100
        shown = f"{percent} % of {self.total:,} records"
        to_go = self.seconds_to_go
        return shown if to_go is None else f"{shown}, about {to_go:.0f} s to go"


NOTHING_TO_READ = RecoveryProgress(0, 0, None)


def at_this_rate(read: int, total: int, seconds: float) -> RecoveryProgress:
    """Return the progress after these seconds, if the rest is read at the same rate.

    >>> at_this_rate(read=10, total=40, seconds=5).seconds_to_go
    15.0
    """
    return RecoveryProgress(read, total, seconds * (total - read) / read if read else None)


# A table whose state is kept per partition and recovered many records at a time.
#
# Faust 0.15.3 recovers some 10,000 records a second, one at a time. On every rebalance it reads
# again what the instance itself wrote. Errors during recovery are only logged.


FROM_THE_START = -1


class PartitionedState(Protocol):
    """The state behind a table, for each partition that this instance owns."""

    def open(self, partition: int) -> None:
        """Begin a partition with empty state."""

    def close(self, partition: int) -> None:
        """Forget a partition."""

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the changelog, in order."""

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Complete the recovery of these partitions, before agents get their records.

        `generation` is that of the group; it grows with every rebalance.
        """


class BatchTable(Table[Any, Any]):
    """A Faust table with a given changelog topic, and with its state in `states`."""

    def __init__(
        self,
        app: AppT,
        name: str,
        changelog_topic: TopicT,
        states: PartitionedState,
        **kwargs: Any,
    ) -> None:
        super().__init__(app, name=name, changelog_topic=changelog_topic, **kwargs)
        self.states = states
        self.offsets: dict[int, int] = {}  # of the last record applied or written, by partition
        self.diverged: set[int] = set()  # partitions to which another instance has written too
        self.generation = 0

    def persisted_offset(self, tp: TP) -> int | None:
        """Return the last offset applied or written here, after which recovery begins."""
        return self.offsets.get(tp.partition)

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """Note that this instance published these records, which need not be read again.

        If they do not follow the last known offset, another instance has written too. Its records
        are read later; until then the state matches the changelog at no offset.
        """
        for (topic, partition), offset in offsets.items():
            if topic == self.changelog_topic_name:
                before = offset - len(outbox[topic, partition])
                if self.offsets.get(partition) == before:
                    self.offsets[partition] = offset
                elif partition in self.offsets:
                    self.diverged.add(partition)

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the changelog, in order, except those applied before."""
        known = self.offsets.get(partition)
        if known is None:
            return  # fetched before the partition was revoked
        if records[0].offset <= known:
            records = [record for record in records if record.offset > known]
        if records:
            self.states.restore(partition, records)
            self.offsets[partition] = records[-1].offset

    def passed(self, partition: int, offset: int) -> None:
        """Note that there are no records to apply up to this offset."""
        self.offsets[partition] = offset

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Forget revoked partitions, begin new ones, and keep the state of the others.

        An instance that missed a generation may have had a successor. It keeps its state and reads
        what the successor has written; only if both have written, the partition begins again.
        """
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        mine = {tp.partition for tp in assigned if tp.topic == self.changelog_topic_name}
        missed = generation_id != self.generation + 1
        self.generation = generation_id
        await self.forget((set(self.offsets) - mine) | (self.diverged if missed else set()))
        for partition in mine - set(self.offsets):
            self.offsets[partition] = FROM_THE_START
            self.states.open(partition)

    async def forget(self, partitions: set[int]) -> None:
        """Forget partitions; if they are assigned again, they begin with empty state."""
        for partition in partitions:
            del self.offsets[partition]
            self.diverged.discard(partition)
            self.states.close(partition)
            await asyncio.sleep(0)  # let heartbeats be sent, however much there is to forget

    async def ready(self, active: set[TP]) -> None:
        """Make the state ready: all of the changelog is applied.

        The recovery cancels this on a rebalance. Raises `RemovedFromGroup` if Kafka has removed
        this instance meanwhile.
        """
        try:
            await self.states.ready({tp.partition for tp in active}, self.generation)
        except RemovedFromGroup:
            raise
        except Exception as error:
            abort(error)


# Faust 0.15.3 collects a thousand events of a changelog and applies them at once. Here an event is
# a batch, so that would be the whole changelog: no heartbeat would be sent meanwhile, and Kafka
# would remove the instance from the group. Here records are applied as they come, and every few
# milliseconds the other tasks of the loop run.
#
# Other behaviour of Faust 0.15.3 that this file changes:
#
# - It waits for a record at the last offset of a changelog, but a transaction ends with a marker.
# - It treats a request that timed out as the end of the service: recovery stops silently, and the
#   instance waits for it forever.
# - It treats a rebalance during recovery as the end of the changelog, and notifies the tables.
# - It continues with revoked partitions until others are assigned, and so do the tables' callbacks.
# - It signals the end of recovery only for a moment: a task that waits later waits forever.


TURN_SECONDS = 0.02  # after which other tasks of the loop run
SILENCE_SECONDS = 0.2  # without a record, before the positions are checked
ENOUGH_TO_GUESS = 0.01  # of all records


class Pace:
    """Chooses how many records of a topic to apply at once: as many as take about one turn.

    The records of some topics are larger than those of others.
    """

    def __init__(self) -> None:
        self.records = 1
        self.seconds = 0.0  # spent on all records so far

    def pieces(self, records: list[ConsumerRecord]) -> Iterator[list[ConsumerRecord]]:
        """Split the records into pieces, in order."""
        start = 0
        while start < len(records):
            piece = records[start : start + self.records]
            start += len(piece)
            yield piece

    def took(self, records: int, seconds: float) -> None:
        """Adapt to the time that these records took."""
        self.seconds += seconds
        if seconds > TURN_SECONDS:
            self.records = max(1, self.records // 2)
        elif seconds < TURN_SECONDS / 2 and records == self.records:
            self.records *= 2


class BatchRecovery(Recovery):
    """Faust's recovery, which applies records as they are read and ends when they are revoked."""

    def __init__(self, app: AppT, tables: TableManagerT, **kwargs: Any) -> None:
        super().__init__(app, tables, **kwargs)
        self.revoked = asyncio.Event()
        self.begins: dict[TP, int] = {}  # the offset before the first record to restore
        self.begun = monotonic()
        self.paces: dict[str, Pace] = {}  # by topic

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop the recovery: a rebalance begins, or the app stops."""
        super().on_partitions_revoked(revoked)
        self.revoked.set()

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Begin a recovery at the offsets of the tables."""
        self.revoked.clear()
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def _wait(
        self,
        coro: Any,
        timeout: Any = None,  # noqa: ASYNC109  # Faust calls it so
    ) -> None:
        result = await self.wait_first(
            coro,
            self.revoked,  # type: ignore[arg-type]  # it also takes events of asyncio
            self.signal_recovery_start,  # type: ignore[arg-type]
            timeout=timeout,
        )
        if result.stopped and self.should_stop:
            raise ServiceStopped
        if result.stopped:
            raise TimeoutError("Kafka does not answer: the tables cannot be recovered")
        if self._is_superseded():
            raise RebalanceAgain

    def _is_superseded(self) -> bool:
        return self.revoked.is_set() or self.signal_recovery_start.is_set()

    def _set_recovery_started(self) -> None:
        super()._set_recovery_started()
        self.signal_recovery_end.clear()

    def _set_recovery_ended(self) -> None:
        super()._set_recovery_ended()
        self.signal_recovery_end.set()

    async def _build_offsets(
        self, consumer: Any, tps: set[TP], destination: Any, title: str
    ) -> None:
        await super()._build_offsets(consumer, tps, destination, title)
        if destination is self.active_offsets:
            self.begins = dict(destination)
            self.begun = monotonic()
            self.paces = {tp.topic: Pace() for tp in destination}

    @property
    def progress(self) -> RecoveryProgress:
        """How much is restored of the records that the last recovery began with."""
        parts = [self._progress(topic, pace) for topic, pace in self.paces.items()]
        seconds = monotonic() - self.begun
        read, total = sum(part.read for part in parts), sum(part.total for part in parts)
        applying = sum(pace.seconds for pace in self.paces.values())
        to_go = [part.seconds_to_go for part in parts if part.seconds_to_go is not None]
        if applying and len(to_go) == len(parts):
            return RecoveryProgress(read, total, sum(to_go) * seconds / applying)
        if read > total * ENOUGH_TO_GUESS:  # for some topic, the time per record is not known yet
            return at_this_rate(read, total, seconds)
        return RecoveryProgress(read, total, None)

    def _progress(self, topic: str, pace: Pace) -> RecoveryProgress:
        """Return the progress of one topic, with the time it takes to apply the rest."""
        read = total = 0
        for tp, begin in self.begins.items():
            if tp.topic == topic:
                highwater = max(begin, self.active_highwaters[tp])
                total += highwater - begin
                read += min(self.active_offsets[tp], highwater) - begin
        return at_this_rate(read, total, pace.seconds) if total else RecoveryProgress(0, 0, 0.0)

    @property
    def is_restored(self) -> bool:
        """Whether all records are applied; the tables may still be getting ready."""
        return self.signal_recovery_end.is_set() and not self._is_superseded()

    @Service.task
    async def _slurp_changelogs(self) -> None:
        """Apply the batches of the changelogs as they come."""
        queue = self.tables.changelog_queue
        try:
            while not self.should_stop:
                try:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        message = (await queue.get()).message
                except TimeoutError:
                    self._pass_offsets_without_records()
                else:
                    await self._restore(message)
                if self.in_recovery and not self.need_recovery():
                    self._set_recovery_ended()
        except Exception as error:
            abort(error)

    async def _restore(self, message: Message) -> None:
        """Apply a fetched batch, a piece at a time, unless a rebalance supersedes it."""
        for tp, records in batch_of(message).parts.items():
            table = cast(BatchTable, self.tables._changelogs[tp.topic])
            pace = self.paces[tp.topic]
            for piece in pace.pieces(records):
                if self._is_superseded() or message.generation_id != self._generation_id:
                    return
                begun = monotonic()
                table.restore(tp.partition, piece)
                pace.took(len(piece), monotonic() - begun)
                self.active_offsets[tp] = max(self.active_offsets[tp], piece[-1].offset)
                await asyncio.sleep(0)

    def _pass_offsets_without_records(self) -> None:
        """Pass offsets without a record: all records below the positions are applied."""
        if self.in_recovery and not self._is_superseded():
            read_to = cast(BatchConsumer, self.app.consumer).read_to
            for tp, highwater in self.active_highwaters.items():
                if self.active_offsets[tp] < highwater < read_to.get(tp, 0):
                    self.active_offsets[tp] = highwater
                    cast(BatchTable, self.tables._changelogs[tp.topic]).passed(
                        tp.partition, highwater
                    )

    @Service.task
    async def _publish_stats(self) -> None:
        """Do nothing: Faust would warn of events that it has not seen."""

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Make the tables ready in the order in which they were added.

        A rebalance meanwhile ends the recovery.
        """
        if self._is_superseded():
            raise RebalanceAgain
        for table in self.tables.values():
            if isinstance(table, BatchTable) and table in self.actives_for_table:
                try:
                    await table.ready(self.actives_for_table[table])
                except RemovedFromGroup:
                    raise RebalanceAgain from None
        await super().on_recovery_completed(generation_id)


class BatchTableManager(TableManager):
    """Faust's table manager with that recovery.

    The state is stale if results were not published because Kafka removed this instance: then it is
    not what the changelogs say, and all tables begin again from empty state.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_stale = False

    def mark_stale(self) -> None:
        """Discard the state of all tables at the next rebalance."""
        self.is_stale = True

    @property
    def recovery(self) -> BatchRecovery:
        """The recovery of all tables, created when it is first used."""
        if self._recovery is None:
            self._recovery = BatchRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return cast(BatchRecovery, self._recovery)

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Discard stale state, then lower the fence, so that results can be published again.

        All tables discard their state before any begins again: they share it with each other.
        """
        if self.is_stale:
            for table in self.values():
                if isinstance(table, BatchTable):
                    await table.forget(set(table.offsets))
            self.is_stale = False
        cast("BatchedApp", self.app).fence.begin()
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
