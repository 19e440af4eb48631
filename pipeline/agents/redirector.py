"""Records that do not stay where they came: to another partition, or to the dead letters."""

from aiokafka import ConsumerRecord

from pipeline.agents.telemetry.dead_letter_log import DeadLetterLog
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.batched.producer import Outbox
from pipeline.records.bad import BadRecord
from pipeline.records.dead_letters import dead_letter
from pipeline.records.origin import Header, Origin, forwarded_headers, origin_of
from pipeline.topics import Topics


class Redirector:
    """Forwards and rejects records, for all agents."""

    def __init__(self, topics: Topics, metrics: Metrics, log: DeadLetterLog) -> None:
        self.topic = topics.dead_letters.name
        self.partitions = topics.settings.partitions
        self.metrics = metrics
        self.log = log

    def reject(self, outbox: Outbox, record: ConsumerRecord, why: BadRecord) -> None:
        """Add a record to the dead letters, in the partition of the same number.

        The place in it is the first that the record had.
        """
        told = origin_of(record.headers, record.topic, self.partitions)
        origin = told or Origin(record.topic, record.partition, record.offset)
        letter = dead_letter(origin, record.key, record.value, why)
        headers: list[Header] = [*letter.headers]
        row = (letter.key, letter.value, None, headers)
        outbox.add(self.topic, record.partition, row)
        self.metrics.dead_letters.labels(why.reason).inc()
        self.log.add(origin, why)

    def forward(self, outbox: Outbox, record: ConsumerRecord, key: str, partition: int) -> None:
        """Add a good record to the partition of its key, without the headers that do not fit."""
        here = Origin(record.topic, record.partition, record.offset)
        headers = forwarded_headers(record.headers, here)
        row = (key.encode(), record.value, record.timestamp, headers)
        outbox.add(record.topic, partition, row)
