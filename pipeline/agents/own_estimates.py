"""Detects estimates that somebody else has written to the partitions of this instance.

The other instances believe such records. So they become dead letters, and this instance publishes
all its estimates again, in an epoch that is not below the forged one.
"""

from collections.abc import Callable

import numpy as np
from aiokafka import ConsumerRecord

from pipeline.agents.publisher import Publisher
from pipeline.agents.rejects import Rejects
from pipeline.batched.producer import Offsets, Outbox
from pipeline.records.bad import BadRecord, Reason
from pipeline.records.estimates import parse_estimates
from pipeline.stages.offsets import CountedOffsets
from pipeline.topics import Topics

MOST_EPOCH = (1 << 61) - 1


class WrittenEstimates:
    """The offsets of all estimates that this instance has written, by partition."""

    def __init__(self, topics: Topics) -> None:
        self.topic = topics.estimates.name
        self.offsets = [CountedOffsets() for _ in range(topics.settings.partitions)]

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """Note what this instance has published, up to these offsets."""
        for (topic, partition), last in offsets.items():
            if topic == self.topic:
                rows = len(outbox[topic, partition])
                self.offsets[partition].add(np.arange(last - rows + 1, last + 1))

    def has(self, record: ConsumerRecord) -> bool:
        """Whether this instance has written the record."""
        return record.offset in self.offsets[record.partition]


class OwnEstimates:
    """Compares the records of the own partitions with those that this instance has written.

    `is_sole_owner` returns whether no other instance can own the partitions.
    """

    def __init__(
        self,
        written: WrittenEstimates,
        publisher: Publisher,
        rejects: Rejects,
        is_sole_owner: Callable[[], bool],
    ) -> None:
        self.written = written
        self.publisher = publisher
        self.rejects = rejects
        self.is_sole_owner = is_sole_owner
        self.unknown: list[ConsumerRecord] = []  # not known to be written by this instance

    def read(self, records: list[ConsumerRecord]) -> None:
        """Take records of an own partition."""
        self.unknown += [record for record in records if not self.written.has(record)]

    def take(self, partition: int) -> list[ConsumerRecord]:
        """Remove and return the unknown records of a partition that is no longer an own one."""
        found = [record for record in self.unknown if record.partition == partition]
        self.unknown = [record for record in self.unknown if record.partition != partition]
        return found

    def check(self) -> None:
        """Publish everything again if somebody else has written estimates.

        This is unknown while records are in flight, and while another instance may be the owner.
        """
        if not self.unknown or self.publisher.groups.producer.in_flight:
            return
        if not self.is_sole_owner():
            return
        unknown, self.unknown = self.unknown, []
        if any([self._is_forged(record) for record in unknown]):  # noqa: C419  # check every one
            self.publisher.publish_all_estimates()

    def _is_forged(self, record: ConsumerRecord) -> bool:
        """Whether neither this instance nor a former owner wrote it; then it is a dead letter."""
        stage = self.publisher.stage
        state = stage.partitions.get(record.partition)
        if state is None or self.written.has(record):
            return False
        try:
            epoch, _ = parse_estimates(record.value, len(stage.crowd.classes))
            if epoch < state.epoch:
                return False
            stage.raise_epoch(record.partition, min(epoch, MOST_EPOCH))
            raise BadRecord(Reason.NOT_OURS, "not an sbic record: the owner did not write it")
        except BadRecord as bad:
            self.rejects.add(record, bad)
        return True
