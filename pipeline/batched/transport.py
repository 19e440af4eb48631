"""The transport behind the URL scheme `batched://`, which Faust finds by its entry point."""

from typing import Any

from faust import Topic
from faust.transport.drivers import aiokafka
from faust.types import EventT, Message

from pipeline.batched.consumer import BatchConsumer


class Transport(aiokafka.Transport):
    """Faust's transport on aiokafka, a batch at a time."""

    Consumer = BatchConsumer


class BatchTopic(Topic):
    """A topic whose events carry a batch: there is nothing to decode."""

    def _compile_decode(self) -> None:
        """Keep `decode` as it is: Faust would replace it by one that calls codecs."""

    async def decode(self, message: Message, *, propagate: bool = False) -> EventT[Any]:
        """The event of a batch."""
        return self._create_event(None, message.value, None, message=message)
