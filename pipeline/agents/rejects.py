"""Records on topics between instances that cannot be ours: they go to the dead letters."""

from aiokafka import ConsumerRecord

from pipeline.agents.redirector import Redirector
from pipeline.batched.group_publisher import GroupPublisher, Publication
from pipeline.batched.producer import BatchProducer, Outbox
from pipeline.records.bad import BadRecord


class RejectedRecords:
    """Records to publish together."""

    is_full = False

    def __init__(self) -> None:
        self.records: list[tuple[ConsumerRecord, BadRecord]] = []


class Rejects:
    """Publishes them by themselves: what agents make must not go out in the midst of a recovery."""

    def __init__(self, redirector: Redirector, producer: BatchProducer) -> None:
        self.redirector = redirector
        self.groups = GroupPublisher(producer, RejectedRecords, self.pack)

    def add(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Publish a record as a dead letter."""
        self.groups.filling.records.append((record, why))
        self.groups.notify()

    def pack(self, group: RejectedRecords) -> Publication:
        """The dead letters."""
        outbox = Outbox()
        for record, why in group.records:
            self.redirector.reject(outbox, record, why)
        return Publication(outbox, lambda _offsets, _seconds: None)
