"""Publishes dead letters from the topics between instances, apart from the results of agents."""

from collections.abc import Sequence

from aiokafka import ConsumerRecord

from pipeline.agents.redirector import Redirector
from pipeline.batched.group_publisher import GroupPublisher, Publication
from pipeline.batched.producer import BatchProducer, Outbox
from pipeline.records.bad import BadRecord
from pipeline.stages.taken import Forwarded, Rejected


class RejectedRecords:
    """Records to publish together."""

    is_full = False
    forwarded: Sequence[Forwarded[ConsumerRecord]] = ()

    def __init__(self) -> None:
        self.rejected: list[Rejected[ConsumerRecord]] = []


class Rejects:
    """Publishes records that sbic did not write as dead letters.

    They are found during recoveries too, when results of agents must not be published.
    """

    def __init__(self, redirector: Redirector, producer: BatchProducer) -> None:
        self.redirector = redirector
        self.groups = GroupPublisher(producer, RejectedRecords, self.pack)

    def add(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Publish a record as a dead letter."""
        self.groups.filling.rejected.append(Rejected(record, why))
        self.groups.notify()

    def pack(self, group: RejectedRecords) -> Publication:
        """Turn the records into dead letters."""
        outbox = Outbox()
        self.redirector.add(outbox, group)
        return Publication(outbox, lambda _offsets, _seconds: self.redirector.count(group))
