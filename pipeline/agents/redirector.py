"""Records that do not belong where they are: to another partition, or to the dead letters."""

from collections.abc import Sequence
from typing import Protocol

from aiokafka import ConsumerRecord

from pipeline.agents.telemetry.dead_letter_log import DeadLetterLog
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.batched.producer import Outbox, Row
from pipeline.records.dead_letters import dead_letter
from pipeline.records.origin import Origin, forwarded_headers, origin_of
from pipeline.stages.taken import Forwarded, Rejected
from pipeline.topics import Topics


class Redirected(Protocol):
    """Results of a stage, with the records that it rejects and forwards."""

    @property
    def rejected(self) -> Sequence[Rejected[ConsumerRecord]]:
        """Records for the dead letters."""

    @property
    def forwarded(self) -> Sequence[Forwarded[ConsumerRecord]]:
        """Good records for other partitions of their topic."""


class Redirector:
    """Forwards and rejects records, for all agents."""

    def __init__(self, topics: Topics, metrics: Metrics, log: DeadLetterLog) -> None:
        self.topic = topics.dead_letters.name
        self.partitions = topics.settings.partitions
        self.metrics = metrics
        self.log = log

    def add(self, outbox: Outbox, results: Redirected) -> None:
        """Add the records that a stage rejects, then those that it forwards."""
        for rejected in results.rejected:
            self._reject(outbox, rejected)
        for forwarded in results.forwarded:
            self._forward(outbox, forwarded)

    def count(self, results: Redirected) -> None:
        """Count in the metrics, and log, the records that were published as dead letters."""
        for record, why in results.rejected:
            self.metrics.dead_letters.labels(why.reason).inc()
            self.log.add(self._origin(record), why)

    def _origin(self, record: ConsumerRecord) -> Origin:
        """The topic, partition and offset that a record was first written to."""
        first = origin_of(record.headers, record.topic, self.partitions)
        return first or Origin(record.topic, record.partition, record.offset)

    def _reject(self, outbox: Outbox, rejected: Rejected[ConsumerRecord]) -> None:
        """Add a record to the dead letters, in the partition of the same number."""
        record, why = rejected
        letter = dead_letter(self._origin(record), record.key, record.value, why)
        row = Row(letter.key, letter.value, headers=[*letter.headers])
        outbox.add(self.topic, record.partition, row)

    def _forward(self, outbox: Outbox, forwarded: Forwarded[ConsumerRecord]) -> None:
        """Add a good record to the partition of its key, without headers that are too large."""
        record, key, partition = forwarded
        here = Origin(record.topic, record.partition, record.offset)
        headers = forwarded_headers(record.headers, here)
        outbox.add(
            record.topic, partition, Row(key.encode(), record.value, record.timestamp, headers)
        )
