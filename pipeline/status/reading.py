"""Reads the status of a project from Kafka alone: its topics and its consumer group."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from pipeline.kafka.access.granted import describe_topics
from pipeline.kafka.access.rights import Need, Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.kafka.reading import Reader, reading
from pipeline.progress import progress
from pipeline.records.bad import BadRecord
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.settings import Settings
from pipeline.status.flow import FlowReader
from pipeline.status.report import Summary
from pipeline.topics import Topics
from pipeline.transfer.export import read_worker

Take = Callable[[Iterable[ConsumerRecord]], None]

SHOWN_SETTINGS = (
    *("classes", "algorithm", "alpha", "beta", "prior", "class_prior", "repeats"),
    *("policy", "seed", "lease_seconds", "gold_rate"),
    *("stop_confidence", "stop_labels", "budget", "block_below", "block_after"),
)


def settings_in_force(settings: Settings) -> dict[str, object]:
    """The settings that define the numbers, and the rules that close tasks."""
    shown = {name: getattr(settings, name) for name in SHOWN_SETTINGS}
    return shown | {"algorithm": settings.chosen_algorithm}


def empty_summary(settings: Settings) -> Summary:
    """The summary of a project before anything is read."""
    return Summary(settings.prefix, settings_in_force(settings), budget=settings.budget)


class StatusReader:
    """Keeps a summary up to date: reads each topic once, and then only new records."""

    def __init__(
        self,
        settings: Settings,
        readers: dict[str, Reader],
        asking: AIOKafkaConsumer,
        flow: FlowReader,
    ) -> None:
        self.topics = Topics(settings)
        self.readers = readers
        self.asking = asking
        self.flow = flow
        self.summary = empty_summary(settings)

    async def update(self) -> Summary:
        """Read what is new, and return the summary."""
        topics = self.topics
        group = await self.flow.group()
        await self._read(topics.posteriors.name, self._take_posteriors, "Reading posteriors")
        await self._read(topics.workers.name, self._take_workers, "Reading workers")
        letters = self.summary.letters
        await self._read(topics.dead_letters.name, letters.take, "Reading dead letters")
        self.summary.update(await self.flow.activity(group))
        return self.summary

    async def _read(self, topic: str, take: Take, title: str) -> None:
        reader = self.readers[topic]
        await reader.move_end(self.asking)
        with progress(title, total=await reader.remaining()) as advance:
            async for records in reader.to_the_end():
                take(records)
                advance(len(records))

    def _take_posteriors(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            try:
                if record.value is None:
                    self.summary.tasks.remove((record.key or b"").decode(errors="replace"))
                else:
                    self.summary.tasks.add(parse_any_posterior(record.value))
            except BadRecord:
                continue  # not an sbic record: ignore

    def _take_workers(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            try:
                self.summary.workers.add(read_worker(record.value))
            except BadRecord:
                continue


@asynccontextmanager
async def reading_status(settings: Settings) -> AsyncIterator[StatusReader]:
    """A connected reader of the status."""
    topics = Topics(settings)
    inputs = (topics.labels, topics.votes, topics.tasks, topics.requests)
    await describe_topics(settings, [Need(topic.name, Operation.DESCRIBE) for topic in inputs])
    async with AsyncExitStack() as stack:
        readers = {}
        for topic in (topics.posteriors, topics.workers, topics.dead_letters):
            reader = reading(settings, topic.name, from_start=True)
            readers[topic.name] = await stack.enter_async_context(reader)
        asking = AIOKafkaConsumer(**client_options(settings))
        await stack.enter_async_context(connected(asking, settings))
        flow = await stack.enter_async_context(reading_flow(settings, asking))
        yield StatusReader(settings, readers, asking, flow)


@asynccontextmanager
async def reading_flow(settings: Settings, asking: AIOKafkaConsumer) -> AsyncIterator[FlowReader]:
    """A connected reader of the activity."""
    topics = Topics(settings)
    async with (
        reading(settings, topics.posteriors.name, from_start=False) as posteriors,
        reading(settings, topics.estimates.name, from_start=False) as estimates,
    ):
        yield FlowReader(settings, posteriors, estimates, asking)
