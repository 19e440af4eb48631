"""The current posteriors of one partition."""

import asyncio

from aiokafka import AIOKafkaConsumer

from pipeline.client.transport import Posterior
from pipeline.kafka.reading import Reader
from pipeline.records.bad import BadRecord
from pipeline.records.named_posteriors import parse_any_posterior


class PartitionPosteriors:
    """The last record of each task of a partition, cached between calls."""

    def __init__(self, reader: Reader, asking: AIOKafkaConsumer) -> None:
        self._reader = reader
        self._asking = asking
        self._last: dict[bytes, bytes] = {}
        self._reading = asyncio.Lock()

    async def find(self, task: str) -> Posterior | None:
        """The posterior of a task, including all records published before this call."""
        async with self._reading:
            await self._reader.move_end(self._asking)
            async for records in self._reader.to_the_end():
                for record in records:
                    if record.value is None:
                        self._last.pop(record.key, None)
                    else:
                        self._last[record.key] = record.value
        try:
            value = self._last.get(task.encode())
            return None if value is None else dict(parse_any_posterior(value))
        except BadRecord:
            return None  # not an sbic record: ignore
