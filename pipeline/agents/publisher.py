"""How agents publish: all acknowledged on return, and the tables know what was written."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from aiokafka import ConsumerRecord

from pipeline.agents.metrics import Metrics
from pipeline.batched.producer import BatchProducer, Outbox
from pipeline.batched.table import BatchTable
from pipeline.records.bad import BadRecord
from pipeline.records.dead_letters import dead_letter
from pipeline.topics import Topics

if TYPE_CHECKING:
    from pipeline.agents.app import PipelineApp


class Publisher:
    """Publishes outboxes through the app's producer."""

    def __init__(self, app: "PipelineApp", topics: Topics, metrics: Metrics) -> None:
        self.app = app
        self.topics = topics
        self.metrics = metrics

    async def publish(self, outbox: Outbox) -> dict[tuple[str, int], int]:
        """Wait until Kafka has all of it; the offset of the last record of each partition."""
        producer = cast(BatchProducer, self.app.producer)
        offsets = await producer.publish(outbox)
        for table in cast(Iterable[BatchTable], self.app.tables.values()):
            for (topic, partition), offset in offsets.items():
                if topic == table.changelog_topic_name:
                    table.wrote(partition, offset)
        return offsets

    def add_dead_letter(self, outbox: Outbox, record: ConsumerRecord, why: BadRecord) -> None:
        """Add a record that cannot be used, to the same partition of the dead letters."""
        topic, partition = record.topic, record.partition
        letter = dead_letter(topic, partition, record.offset, record.key, record.value, why)
        name = self.topics.dead_letters.name
        outbox.add(name, partition, (letter.key, letter.value, None, letter.headers))
        self.metrics.dead_letters.labels(why.reason).inc()
