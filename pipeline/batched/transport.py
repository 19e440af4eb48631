"""The transport behind the URL scheme `batched://`, which Faust finds by its entry point."""

from typing import Any

from faust import Topic
from faust.transport.drivers import aiokafka
from faust.types import EventT, Message

from pipeline.batched.consumer import BatchConsumer


class Transport(aiokafka.Transport):
    """Faust's transport on aiokafka, with a consumer of batches."""

    Consumer = BatchConsumer


class BatchTopic(Topic):
    """A topic whose events carry batches, which need no decoding."""

    def _compile_decode(self) -> None:
        """Keep `decode`: Faust would replace it by a function that calls codecs."""

    async def decode(self, message: Message, *, propagate: bool = False) -> EventT[Any]:
        """Return the event of a batch."""
        return self._create_event(None, message.value, None, message=message)
