"""Batches, which agents iterate over: the records of one topic that were fetched together."""

from typing import Protocol, cast

from aiokafka import ConsumerRecord
from faust.types import TP, ConsumerMessage, Message


class Finisher(Protocol):
    """The consumer that fetched a batch."""

    def finish(self, batch: "Batch") -> None:
        """Let the end of the batch be committed: all its results are published."""


class Batch:
    """Records of one topic by partition, each partition's in order.

    Its offsets are committed only after `finish`.
    """

    __slots__ = ("consumer", "parts")

    def __init__(self, parts: dict[TP, list[ConsumerRecord]], consumer: Finisher) -> None:
        self.parts = parts
        self.consumer = consumer

    def finish(self) -> None:
        """Let the batch be committed: all its results are published and acknowledged."""
        self.consumer.finish(self)


def batch_of(message: Message) -> Batch:
    """Return the batch that a message of Faust carries."""
    return cast(Batch, message.value)


def message_of(batch: Batch, generation_id: int) -> ConsumerMessage:
    """Wrap the batch in one message of Faust, with the topic and partition of its first records."""
    tp, records = next(iter(batch.parts.items()))
    last = records[-1]
    return ConsumerMessage(
        tp.topic,
        tp.partition,
        last.offset,
        last.timestamp / 1000,
        last.timestamp_type,
        None,
        None,
        cast(bytes, batch),  # Faust only passes it on
        None,
        serialized_key_size=0,
        serialized_value_size=0,
        tp=tp,
        generation_id=generation_id,
    )
