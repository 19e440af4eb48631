"""A table whose state is kept per partition and recovered many records at a time.

Faust 0.15.3 recovers some 10,000 records a second, one at a time, reads again on every rebalance
what the instance itself wrote, and only logs an error on the way.
"""

import asyncio
from typing import Any, Protocol

from aiokafka import ConsumerRecord
from faust import Table
from faust.types import TP, AppT, TopicT

from pipeline.batched.fence import PutOut
from pipeline.batched.producer import Offsets, Outbox
from pipeline.batched.stop import abort

FROM_THE_START = -1


class PartitionedState(Protocol):
    """What a table keeps: one state for each partition that this instance owns."""

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""

    def close(self, partition: int) -> None:
        """Forget a partition."""

    def restore(self, partition: int, records: list[ConsumerRecord], *, sure: bool) -> int:
        """Apply records of the changelog, in order; how many.

        Fewer than all, unless it is `sure`, if more has to be known first to judge the next.
        """

    async def ask(self) -> None:
        """Get to know what there is to know now: then it is sure."""

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Called when these partitions are recovered, before their streams go on.

        `generation` is that of the group; it grows with every rebalance.
        """


class BatchTable(Table[Any, Any]):
    """A Faust table on a changelog topic of its own, with its state in `states`."""

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
        self.diverged: set[int] = set()  # partitions in which somebody else has written between
        self.generation = 0

    def persisted_offset(self, tp: TP) -> int | None:
        """Where recovery begins: after what was applied or written here."""
        return self.offsets.get(tp.partition)

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """The owner published this, up to these offsets: it need not be read again.

        If it does not follow on the last, somebody else has written too: that is read later, and
        the state is no longer what the changelog says up to an offset.
        """
        for (topic, partition), offset in offsets.items():
            if topic == self.changelog_topic_name:
                before = offset - len(outbox[topic, partition])
                if self.offsets.get(partition) == before:
                    self.offsets[partition] = offset
                elif partition in self.offsets:
                    self.diverged.add(partition)

    def restore(
        self, partition: int, records: list[ConsumerRecord], *, sure: bool
    ) -> list[ConsumerRecord]:
        """Apply records of the changelog, in order; those known already are left out.

        Returns the rest, if more has to be known first.
        """
        known = self.offsets.get(partition)
        if known is None:
            return []  # fetched before a rebalance took the partition away
        if records[0].offset <= known:
            records = [record for record in records if record.offset > known]
        if not records:
            return []
        done = self.states.restore(partition, records, sure=sure)
        if done:
            self.offsets[partition] = records[done - 1].offset
        return records[done:]

    def passed(self, partition: int, offset: int) -> None:
        """There is nothing to apply up to this offset."""
        self.offsets[partition] = offset

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Forget what went to others, begin what is new; keep what stays.

        Whoever was out of the group for a generation may have had a successor. What is known is
        kept then too, and what the successor has written is read on top of it; only where both
        have written at a time the partition begins anew.
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
        """Forget partitions; if they are assigned again, they begin anew."""
        for partition in partitions:
            del self.offsets[partition]
            self.diverged.discard(partition)
            self.states.close(partition)
            await asyncio.sleep(0)  # heartbeats go on, however much there is to forget

    async def ready(self, active: set[TP]) -> None:
        """All of the changelog is applied; the recovery cancels this when it is void.

        Raises `PutOut` if this instance has lost its place meanwhile.
        """
        try:
            await self.states.ready({tp.partition for tp in active}, self.generation)
        except PutOut:
            raise
        except Exception as error:
            abort(error)
