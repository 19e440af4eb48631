"""Labels sent at a steady rate while a test runs, whatever happens to the broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer

from sbic.wire.labels import encode_label
from tests.agents.kafka import ProjectOnBroker, Triple, until

PATIENCE_MS = 120_000  # longer than any broker is away


class LabelFlow:
    """The labels sent so far; all of them are acknowledged at the end."""

    def __init__(self, here: ProjectOnBroker, triples: Sequence[Triple], per_second: float) -> None:
        self.here = here
        self.triples = triples
        self.gap = 1 / per_second
        self.is_over = False
        self.sent: Sequence[Triple] = ()

    async def goes_on(self, labels: int = 200, deadline: float = 60) -> None:
        """Wait until this many more labels are counted than were sent before the call."""
        await self.here.until_counted(len(self.sent) + labels, deadline)

    async def run(self, producer: AIOKafkaProducer) -> None:
        """Send until `is_over`, and wait until Kafka has acknowledged everything."""
        acknowledgements = []
        topic = self.here.topics.labels.name
        for number, (task, worker, label) in enumerate(self.triples, start=1):
            value = encode_label(task, worker, label)
            acknowledgements.append(await producer.send(topic, value, key=worker.encode()))
            self.sent = self.triples[:number]
            await asyncio.sleep(self.gap)
            if self.is_over:
                break
        else:
            raise AssertionError("the test took longer than its labels lasted")
        await asyncio.gather(*acknowledgements)


@asynccontextmanager
async def flowing(
    here: ProjectOnBroker, triples: Sequence[Triple], per_second: float = 200
) -> AsyncIterator[LabelFlow]:
    """Send labels as a careful client does; at the end all that were sent are acknowledged."""
    flow = LabelFlow(here, triples, per_second)
    producer = AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers,
        enable_idempotence=True,
        request_timeout_ms=PATIENCE_MS,
    )
    async with producer, asyncio.TaskGroup() as tasks:
        tasks.create_task(flow.run(producer))
        try:
            yield flow
        finally:
            flow.is_over = True


async def until_true(condition: Callable[[], bool], deadline: float = 60) -> None:
    """Wait for a condition that is evaluated in another thread."""

    async def is_true() -> bool:
        return await asyncio.to_thread(condition)

    await until(is_true, deadline)
