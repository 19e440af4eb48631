"""Where agents put records that cannot be used."""

from aiokafka import ConsumerRecord

from pipeline.agents.metrics import Metrics
from pipeline.batched.producer import Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.dead_letters import dead_letter


class DeadLetters:
    """The dead-letter topic, as agents write to it."""

    def __init__(self, topic: str, metrics: Metrics) -> None:
        self.topic = topic
        self.metrics = metrics

    def add(self, outbox: Outbox, record: ConsumerRecord, why: BadRecord) -> None:
        """Add a record to the partition of the same number."""
        letter = dead_letter(
            record.topic, record.partition, record.offset, record.key, record.value, why
        )
        row = (letter.key, letter.value, None, letter.headers)
        outbox.add(self.topic, record.partition, row)
        self.metrics.dead_letters.labels(why.reason).inc()
