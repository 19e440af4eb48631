"""Notices what others write in the name of this instance to its partitions of estimates.

The other instances believe it. So it is told to the dead letters, and everything is told anew, in
an epoch that is not below the one that was forged.
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

MOST_EPOCH = (1 << 61) - 1


class OwnEstimates:
    """Compares what is on the own partitions with what was written."""

    def __init__(
        self, publisher: Publisher, rejects: Rejects, is_owner_now: Callable[[], bool]
    ) -> None:
        self.publisher = publisher
        self.rejects = rejects
        self.is_owner_now = is_owner_now
        self.topic = publisher.topics.estimates.name
        self.written = [CountedOffsets() for _ in range(publisher.crowd.partitions)]
        self.others: list[ConsumerRecord] = []  # read, and not known to be written here

    def wrote(self, outbox: Outbox, offsets: Offsets) -> None:
        """This instance has written this, up to these offsets."""
        for (topic, partition), last in offsets.items():
            if topic == self.topic:
                rows = len(outbox[topic, partition])
                self.written[partition].add(np.arange(last - rows + 1, last + 1))

    def read(self, partition: int, records: list[ConsumerRecord]) -> None:
        """These are on an own partition."""
        written = self.written[partition]
        self.others += [record for record in records if record.offset not in written]

    def take(self, partition: int) -> list[ConsumerRecord]:
        """What others have told of a partition that is no longer the own one."""
        found = [record for record in self.others if record.partition == partition]
        self.others = [record for record in self.others if record.partition != partition]
        return found

    def check(self) -> None:
        """Tell anew what others have told, once it is certain that it is not from here.

        Nothing is while records are on their way to Kafka, or while another instance may be the
        owner already.
        """
        if not self.others or self.publisher.groups.producer.in_flight:
            return
        if not self.is_owner_now():
            return
        others, self.others = self.others, []
        if any([self._is_strange(record) for record in others]):  # noqa: C419  # of every one
            self.publisher.tell_anew()

    def _is_strange(self, record: ConsumerRecord) -> bool:
        """Whether somebody else has told it, who is no former owner; it is a dead letter then."""
        state = self.publisher.stage.partitions.get(record.partition)
        if state is None or record.offset in self.written[record.partition]:
            return False
        try:
            epoch, _ = parse_estimates(record.value, len(self.publisher.crowd.classes))
            if epoch < state.epoch:
                return False
            state.epoch = min(epoch, MOST_EPOCH)
            self.publisher.stage.unwritten.setdefault(record.partition, {})  # the epoch is to stay
            raise BadRecord(Reason.NOT_OURS, "not an sbic record: the owner did not write it")
        except BadRecord as bad:
            self.rejects.add(record, bad)
        return True
