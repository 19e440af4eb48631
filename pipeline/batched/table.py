"""A table whose state is kept per partition and recovered many records at a time.

Faust 0.15.3 recovers some 10,000 records a second, one at a time. On every rebalance it reads again
what the instance itself wrote. Errors during recovery are only logged.
"""

import asyncio
from typing import Any, Protocol

from aiokafka import ConsumerRecord
from faust import Table
from faust.types import TP, AppT, TopicT

from pipeline.batched.fence import RemovedFromGroup
from pipeline.batched.producer import Offsets, Outbox
from pipeline.batched.stop import abort

FROM_THE_START = -1


class PartitionedState(Protocol):
    """The state behind a table, for each partition that this instance owns."""

    def open(self, partition: int) -> None:
        """Begin a partition with empty state."""

    def close(self, partition: int) -> None:
        """Forget a partition."""

    def restore(self, partition: int, records: list[ConsumerRecord], *, sure: bool) -> int:
        """Apply records of the changelog, in order; return how many.

        Unless `sure`, it may stop before a record that only `ask` makes it possible to judge.
        """

    async def ask(self) -> None:
        """Get what is needed to judge all records read so far."""

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Called when these partitions are recovered, before agents get their records.

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

    def restore(
        self, partition: int, records: list[ConsumerRecord], *, sure: bool
    ) -> list[ConsumerRecord]:
        """Apply records of the changelog, in order, except those applied before.

        Returns the rest, which can be judged only after `ask`.
        """
        known = self.offsets.get(partition)
        if known is None:
            return []  # fetched before the partition was revoked
        if records[0].offset <= known:
            records = [record for record in records if record.offset > known]
        if not records:
            return []
        done = self.states.restore(partition, records, sure=sure)
        if done:
            self.offsets[partition] = records[done - 1].offset
        return records[done:]

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
