"""Asks Kafka for the ends of the topics that users write to.

A record of sbic never refers to an offset beyond them.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from mode import Service
from numpy.typing import NDArray

from pipeline.agents.retry import retry
from pipeline.kafka.options import client_options
from pipeline.settings import Settings
from pipeline.stages.judge import Ends
from pipeline.topics import Topics


class EndsAsker(Service):
    """Updates `ends` when the known ones are not enough to judge a record.

    It has its own connection: on another, its requests would wait behind a fetch.
    """

    def __init__(self, settings: Settings, ends: Ends, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.ends = ends
        topics = Topics(settings)
        self.known: dict[str, NDArray[Any]] = {
            topics.labels.name: ends.labels,
            topics.tasks.name: ends.tasks,
            topics.requests.name: ends.requests,
        }

    async def on_start(self) -> None:
        """Connect."""
        self.consumer = AIOKafkaConsumer(
            **client_options(self.settings),
            client_id=f"{self.settings.prefix}-ends",
            enable_auto_commit=False,
        )
        await self.consumer.start()

    async def on_stop(self) -> None:
        """Stop the client."""
        await self.consumer.stop()

    async def ask(self) -> None:
        """Update the ends; while no broker is available, keep trying."""
        partitions = range(self.settings.partitions)
        places = [TopicPartition(topic, number) for topic in self.known for number in partitions]
        ends: dict[TopicPartition, int] = await retry(
            lambda: self.consumer.end_offsets(places), on=KafkaError
        )
        for (topic, partition), end in ends.items():
            self.known[topic][partition] = end
