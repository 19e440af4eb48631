"""Recovery of the tables that goes on until all is restored, or the partitions are revoked.

Faust 0.15.3 collects a thousand events of a changelog before it applies them, all at once. Here an
event is a batch, so this would be the whole changelog: for as long as that takes there would be no
heartbeat, and Kafka would put the instance out of the group. Here records are applied as they come,
and after some milliseconds the rest of the loop has its turn.

It waits for the record at the last offset of a changelog, which there may not be: a transaction
ends with a marker. It takes a request that timed out for the end of the service: recovery stops
without a word, and the instance waits for it for ever. It takes a rebalance while it reads a
changelog for the end of that changelog, and tells the tables so. And it goes on with partitions
that are revoked, until others are assigned; what the tables do when they hear of the end of it goes
on even then. And it says that all is read for a moment only: whoever did not wait by then would
wait for ever.
"""

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from aiokafka import ConsumerRecord
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP, AppT, Message
from faust.types.tables import TableManagerT
from mode import Service

from pipeline.batched.batch import batch_of
from pipeline.batched.consumer import BatchConsumer
from pipeline.batched.fence import PutOut
from pipeline.batched.progress import Progress, at_this_rate
from pipeline.batched.stop import abort
from pipeline.batched.table import BatchTable

if TYPE_CHECKING:
    from pipeline.batched.app import BatchedApp

TURN_SECONDS = 0.02  # between two turns of the rest of the loop
SILENCE_SECONDS = 0.2  # without a record, before the positions are looked at
ENOUGH_TO_GUESS = 0.01  # of all records


class Pace:
    """How long the records of a topic take, and how many of them are applied at once.

    As many as take about one turn: those of some topics are larger than those of others.
    """

    def __init__(self) -> None:
        self.records = 1
        self.seconds = 0.0  # that all took so far

    def pieces(self, records: list[ConsumerRecord]) -> Iterator[list[ConsumerRecord]]:
        """The records in order, a piece at a time."""
        start = 0
        while start < len(records):
            piece = records[start : start + self.records]
            start += len(piece)
            yield piece

    def took(self, records: int, seconds: float) -> None:
        """It took that long to apply so many records."""
        self.seconds += seconds
        if seconds > TURN_SECONDS:
            self.records = max(1, self.records // 2)
        elif seconds < TURN_SECONDS / 2 and records == self.records:
            self.records *= 2


class BatchRecovery(Recovery):
    """Faust's recovery; what it reads is applied at once, and a revocation is the end of it."""

    def __init__(self, app: AppT, tables: TableManagerT, **kwargs: Any) -> None:
        super().__init__(app, tables, **kwargs)
        self.revoked = asyncio.Event()
        self.begins: dict[TP, int] = {}  # the offset before the first record to restore
        self.begun = monotonic()
        self.paces: dict[str, Pace] = {}  # by topic

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop where it is: a rebalance begins, or the end of the app."""
        super().on_partitions_revoked(revoked)
        self.revoked.set()

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Begin where the tables are."""
        self.revoked.clear()
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def _wait(
        self,
        coro: Any,
        timeout: Any = None,  # noqa: ASYNC109  # Faust calls it so
    ) -> None:
        result = await self.wait_first(
            coro,
            self.revoked,  # type: ignore[arg-type]  # it takes events of asyncio too
            self.signal_recovery_start,  # type: ignore[arg-type]
            timeout=timeout,
        )
        if result.stopped and self.should_stop:
            raise ServiceStopped
        if result.stopped:
            raise TimeoutError("Kafka does not answer, and the tables are not recovered")
        if self._is_void():
            raise RebalanceAgain

    def _is_void(self) -> bool:
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
    def progress(self) -> Progress:
        """How much is restored of what there was to restore when the last recovery began."""
        parts = [self._progress(topic, pace) for topic, pace in self.paces.items()]
        seconds = monotonic() - self.begun
        read, total = sum(part.read for part in parts), sum(part.total for part in parts)
        applying = sum(pace.seconds for pace in self.paces.values())
        to_go = [part.seconds_to_go for part in parts if part.seconds_to_go is not None]
        if applying and len(to_go) == len(parts):
            return Progress(read, total, sum(to_go) * seconds / applying)
        if read > total * ENOUGH_TO_GUESS:  # what the records of some topic take is not known yet
            return at_this_rate(read, total, seconds)
        return Progress(read, total, None)

    def _progress(self, topic: str, pace: Pace) -> Progress:
        """How much of one topic, and how long it takes to apply the rest of that."""
        read = total = 0
        for tp, begin in self.begins.items():
            if tp.topic == topic:
                highwater = max(begin, self.active_highwaters[tp])
                total += highwater - begin
                read += min(self.active_offsets[tp], highwater) - begin
        return at_this_rate(read, total, pace.seconds) if total else Progress(0, 0, 0.0)

    @property
    def is_restored(self) -> bool:
        """Whether all is read; what the tables do then may still be under way."""
        return self.signal_recovery_end.is_set() and not self._is_void()

    @Service.task
    async def _slurp_changelogs(self) -> None:
        """Apply what is fetched of the changelogs as it comes."""
        queue = self.tables.changelog_queue
        try:
            while not self.should_stop:
                try:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        message = (await queue.get()).message
                except TimeoutError:
                    self._pass_what_is_no_record()
                else:
                    await self._restore(message)
                if self.in_recovery and not self.need_recovery():
                    self._set_recovery_ended()
        except Exception as error:
            abort(error)

    async def _restore(self, message: Message) -> None:
        """Apply a fetched batch a piece at a time, until a rebalance makes it void."""
        for tp, records in batch_of(message).parts.items():
            table = cast(BatchTable, self.tables._changelogs[tp.topic])
            pace = self.paces[tp.topic]
            for piece in pace.pieces(records):
                rest, sure = piece, False
                while rest:
                    if self._is_void() or message.generation_id != self._generation_id:
                        return
                    begun = monotonic()
                    rest = table.restore(tp.partition, rest, sure=sure)
                    pace.took(len(piece), monotonic() - begun)
                    if rest:
                        await table.states.ask()
                        sure = True
                self.active_offsets[tp] = max(self.active_offsets[tp], piece[-1].offset)
                await asyncio.sleep(0)

    def _pass_what_is_no_record(self) -> None:
        """All that was handed out is applied: what lies before the positions is no record."""
        if self.in_recovery and not self._is_void():
            read_to = cast(BatchConsumer, self.app.consumer).read_to
            for tp, highwater in self.active_highwaters.items():
                if self.active_offsets[tp] < highwater < read_to.get(tp, 0):
                    self.active_offsets[tp] = highwater
                    cast(BatchTable, self.tables._changelogs[tp.topic]).passed(
                        tp.partition, highwater
                    )

    @Service.task
    async def _publish_stats(self) -> None:
        """Nothing: Faust would warn of events that it has not seen; `progress` tells."""

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Tell the tables, unless it was a rebalance that ended the reading."""
        if self._is_void():
            raise RebalanceAgain
        for table, partitions in self.actives_for_table.items():
            if isinstance(table, BatchTable):
                try:
                    await table.ready(partitions)
                except PutOut:
                    raise RebalanceAgain from None
        await super().on_recovery_completed(generation_id)


class BatchTableManager(TableManager):
    """Faust's table manager with that recovery.

    `is_void` once something that follows from the tables was not published, since this instance has
    lost its place: then what is known is not what the topics say, and all of it begins anew.
    """

    is_void = False

    @property
    def recovery(self) -> BatchRecovery:
        """The recovery of all tables."""
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
        """Forget everything if it is void; only then anything may be published again.

        All tables forget before any begins: one of them would keep what the others still have.
        """
        if self.is_void:
            for table in self.values():
                if isinstance(table, BatchTable):
                    await table.forget(set(table.offsets))
            self.is_void = False
        cast("BatchedApp", self.app).fence.begin()
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
