"""Reads the status of a project from Kafka alone: its topics, and what Kafka knows of its group."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from time import time

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from pipeline.kafka.admin import Group, describe_group
from pipeline.kafka.clients import client_options
from pipeline.kafka.connection import connected
from pipeline.kafka.granted import described
from pipeline.kafka.rights import Operation
from pipeline.progress import progress
from pipeline.records.bad import BadRecord
from pipeline.records.estimates import parse_rest
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.settings import Settings
from pipeline.status.report import RATE_SECONDS, Flow, Member, Summary
from pipeline.status.rest import SaidRest, Settledness, settledness
from pipeline.tools.dead_letters import letter_of
from pipeline.tools.export import read_worker
from pipeline.tools.reading import Reader, reading
from pipeline.topics import Topic, Topics

Take = Callable[[Iterable[ConsumerRecord]], None]

TAIL = 100  # records of each partition of estimates: more than instances tell in two seconds
SHOWN_SETTINGS = (
    *("classes", "algorithm", "alpha", "beta", "prior", "class_prior", "repeats"),
    *("policy", "seed", "lease_seconds", "gold_rate"),
    *("stop_confidence", "stop_labels", "budget", "block_below", "block_after"),
)


def settings_in_force(settings: Settings) -> dict[str, object]:
    """The settings that say what the numbers mean, and what closes tasks."""
    shown = {name: getattr(settings, name) for name in SHOWN_SETTINGS}
    return shown | {"algorithm": settings.chosen_algorithm}


class StatusReader:
    """Keeps a summary up to date: each topic is read once, and then only what is new."""

    def __init__(
        self, settings: Settings, readers: dict[str, Reader], asking: AIOKafkaConsumer
    ) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.readers = readers
        self.asking = asking
        count = len(readers[self.topics.posteriors.name].partitions)
        self.places = {
            name: [TopicPartition(topic.name, partition) for partition in range(count)]
            for name, topic in self._inputs().items()
        }
        self.summary = Summary(settings.prefix, settings_in_force(settings), budget=settings.budget)
        self._letters: dict[object, str] = {}  # the reason of each, by origin
        self._replayed: set[object] = set()

    async def update(self) -> Summary:
        """Read what is new."""
        topics, summary = self.topics, self.summary
        summary.at = int(1000 * time())
        group = await describe_group(self.settings, self.settings.prefix)
        await self._read(topics.posteriors.name, self._take_posteriors, "Reading posteriors")
        await self._read(topics.workers.name, self._take_workers, "Reading workers")
        await self._read(topics.dead_letters.name, self._take_letters, "Reading dead letters")
        summary.dead_letters = dict(Counter(self._letters.values()).most_common())
        summary.replayed = len(self._replayed)
        summary.flow = await self._flow()
        await self._describe(group)
        summary.settled = await self._settledness(group)
        return summary

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

    def _take_letters(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            letter = letter_of(record)
            if letter is None:
                continue
            if letter.said.is_replayed:
                self._replayed.add(letter.said.origin)
            else:
                self._letters[letter.said.origin] = letter.said.reason

    async def _flow(self) -> Flow:
        """Labels in the topic, and those of late by their timestamps."""
        places = self.places["labels"]
        ends = await self.asking.end_offsets(places)
        starts = await self.asking.beginning_offsets(places)
        since = self.summary.at - 1000 * RATE_SECONDS
        lately = await self.asking.offsets_for_times(dict.fromkeys(places, since))
        return Flow(
            sum(ends.values()) - sum(starts.values()),
            sum(ends[place] - found.offset for place, found in lately.items() if found),
        )

    async def _describe(self, group: Group) -> None:
        """Instances, and what waits for them."""
        lags = await self._lags(group)
        summary = self.summary
        summary.group_state = group.state
        summary.lag = {
            name: sum(lags[place] for place in places) for name, places in self.places.items()
        }
        summary.members = [
            Member(
                member.member_id,
                member.host,
                sorted(self._partitions(member.partitions)),
                sum(lags.get(place, 0) for place in member.partitions),
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ]

    def _inputs(self) -> dict[str, Topic]:
        topics = self.topics
        return {
            "labels": topics.labels,
            "votes": topics.votes,
            "tasks": topics.tasks,
            "requests": topics.requests,
        }

    def _partitions(self, places: Iterable[TopicPartition]) -> frozenset[int]:
        labels = self.topics.labels.name
        return frozenset(place.partition for place in places if place.topic == labels)

    async def _lags(self, group: Group) -> dict[TopicPartition, int]:
        """What the group has not committed of each partition."""
        places = [place for some in self.places.values() for place in some]
        ends = await self.asking.end_offsets(places)
        starts = await self.asking.beginning_offsets(places)
        return {
            place: max(0, ends[place] - group.committed.get(place, starts[place]))
            for place in places
        }

    async def _settledness(self, group: Group) -> Settledness:
        if self.settings.chosen_algorithm != "settled":
            return Settledness(None, "fast-sbic weighs every label once, as it comes")
        said, moved_at = await self._said()
        owners = [self._partitions(member.partitions) for member in group.members]
        lag = sum(self.summary.lag.values())
        return settledness(owners, said, moved_at, lag)

    async def _said(self) -> tuple[dict[int, SaidRest], int]:
        """What instances said last of rest, and when the last vote or estimate was written."""
        said: dict[int, SaidRest] = {}
        moved_at = 0
        for topic, tail in ((self.topics.estimates.name, TAIL), (self.topics.votes.name, 1)):
            reader = self.readers[topic]
            await reader.move_end(self.asking)
            await reader.go_back(tail, self.asking)
            async for records in reader.to_the_end():
                for record in records:
                    rest = parse_rest(record.value)
                    if rest is None:
                        moved_at = max(moved_at, record.timestamp)
                    else:
                        said[record.partition] = SaidRest(record.timestamp, *rest)
        return said, moved_at


@asynccontextmanager
async def reading_status(settings: Settings) -> AsyncIterator[StatusReader]:
    """A reader of all that the status is made of."""
    topics = Topics(settings)
    inputs = (topics.labels, topics.tasks, topics.requests)
    await described(settings, [(topic.name, Operation.DESCRIBE) for topic in inputs])
    from_start = (topics.posteriors, topics.workers, topics.dead_letters)
    async with AsyncExitStack() as stack:
        readers = {}
        for topic in (*from_start, topics.votes, topics.estimates):
            reader = reading(settings, topic.name, from_start=topic in from_start)
            readers[topic.name] = await stack.enter_async_context(reader)
        asking = AIOKafkaConsumer(**client_options(settings))
        await stack.enter_async_context(connected(asking, settings))
        yield StatusReader(settings, readers, asking)
