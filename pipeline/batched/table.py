"""A table whose state is kept per partition and recovered a batch at a time.

Faust 0.15.3 recovers some 10,000 records a second, one at a time, reads again on every rebalance
what the instance itself wrote, and only logs an error on the way.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from aiokafka import ConsumerRecord
from faust import Table
from faust.types import TP, AppT, EventT, TopicT

from pipeline.batched.batch import batch_of
from pipeline.batched.producer import Offsets, Outbox
from pipeline.batched.stop import stop_at_once

FROM_THE_START = -1


class PartitionedState(Protocol):
    """What a table keeps: one state for each partition that this instance owns."""

    def open(self, partition: int) -> None:
        """Begin a partition with nothing in it."""

    def close(self, partition: int) -> None:
        """Forget a partition."""

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the changelog, in order."""

    async def ready(self, partitions: set[int]) -> None:
        """Called when these partitions are recovered, before their streams go on."""


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
        self.generation = 0

    def persisted_offset(self, tp: TP) -> int | None:
        """Where recovery begins: after what was applied or written here."""
        return self.offsets.get(tp.partition)

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """The owner published this, up to these offsets: it need not be read again.

        If it does not follow on the last, somebody else has written too: then all is read again.
        """
        for (topic, partition), offset in offsets.items():
            if topic == self.changelog_topic_name:
                before = offset - len(outbox[topic, partition])
                if self.offsets.get(partition) == before:
                    self.offsets[partition] = offset

    def apply_changelog_batch(self, batch: Iterable[EventT[Any]]) -> None:
        """Apply fetched batches; an error stops the process, where Faust would go on without."""
        try:
            for event in batch:
                for tp, records in batch_of(event.message).parts.items():
                    if tp.topic == self.changelog_topic_name:  # else Faust took it for the last's
                        self._apply(tp.partition, records)
        except Exception as error:
            stop_at_once(error)

    def _apply(self, partition: int, records: list[ConsumerRecord]) -> None:
        known = self.offsets.get(partition)
        if known is None:
            return  # fetched before a rebalance took the partition away
        if records[0].offset <= known:
            records = [record for record in records if record.offset > known]
        if records:
            self.states.restore(partition, records)
            self.offsets[partition] = records[-1].offset

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Forget what went to others, begin what is new.

        Whoever was out of the group for a generation may have had a successor: begin anew then.
        """
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        mine = {tp.partition for tp in assigned if tp.topic == self.changelog_topic_name}
        missed = generation_id != self.generation + 1
        self.generation = generation_id
        for partition in set(self.offsets) - mine if not missed else set(self.offsets):
            del self.offsets[partition]
            self.states.close(partition)
        for partition in mine - set(self.offsets):
            self.offsets[partition] = FROM_THE_START
            self.states.open(partition)

    async def ready(self, active: set[TP]) -> None:
        """All of the changelog is applied; the recovery cancels this when it is void."""
        try:
            await self.states.ready({tp.partition for tp in active})
        except Exception as error:
            stop_at_once(error)
