"""Reads the status of a project from Kafka alone: its topics and its consumer groups."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from math import inf
from time import monotonic, time
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from sbic.kafka.admin import labels_kept, wrong_labels_config
from sbic.kafka.connect import AdminClient, connected
from sbic.kafka.errors import ClusterError, Mismatch
from sbic.kafka.groups import ConsumerGroup, describe_group, sinks_of
from sbic.kafka.protocol import TopicIds, describe_topics
from sbic.kafka.reader import Reader, committed_consumer, parsed, readable, reading
from sbic.kafka.rights import Need, Operation
from sbic.project.added import check_partitions_on
from sbic.project.opening import ProjectLog
from sbic.project.settings import SHOWN_SETTINGS, Settings
from sbic.project.topics import Topic, Topics
from sbic.status.report import (
    RATE_SECONDS,
    Activity,
    Flow,
    Member,
    RestReport,
    Settledness,
    ShownSink,
    Sinks,
    Summary,
    findings_of,
    settledness,
)
from sbic.wire.estimates import Findings, Rest, parse_report
from sbic.wire.posteriors import posterior_parser
from sbic.wire.workers import read_worker

SINKS_SECONDS = 5.0  # between two looks for sinks
SINKS_WAIT = 3.0  # seconds that everything else waits for them
TAIL = 100  # records of a partition of estimates: more than instances publish in two seconds


class Reports(NamedTuple):
    """The last reports of instances, by partition; and when anything else was last published."""

    rests: dict[int, RestReport]
    findings: dict[int, Findings]
    moved_at: int


class FlowReader:
    """Asks Kafka for offsets and the group, and reads the last posteriors and estimates."""

    def __init__(
        self,
        settings: Settings,
        posteriors: Reader,
        estimates: Reader,
        asking: AIOKafkaConsumer,
        admin: AdminClient,
    ) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.posteriors = posteriors
        self.estimates = estimates
        self.asking = asking
        self.admin = admin
        self.wrong: list[Mismatch] = []
        self.sinks = Sinks()
        self.sinks_at = -inf
        self.inputs = {
            name: [TopicPartition(topic.name, tp.partition) for tp in posteriors.partitions]
            for name, topic in self._inputs().items()
        }

    async def group(self) -> ConsumerGroup:
        """Get the group now; read it before the topics, so that the lag is not underestimated."""
        return await describe_group(self.admin)

    async def activity(self, group: ConsumerGroup) -> Activity:
        """Return the activity now, of a group that was just read."""
        at = int(1000 * time())
        labels = self.inputs["labels"]
        starts = await self.asking.beginning_offsets(labels)
        flow = await self._flow(at, starts)
        lags = await self._lags(group)
        lag = {name: sum(lags[tp] for tp in partitions) for name, partitions in self.inputs.items()}
        owners = [self._partitions(member.partitions) for member in group.members]
        reports = await self._reports()
        await self._look_for_sinks()
        return Activity(
            at,
            flow,
            group.state,
            self._members(group, lags),
            lag,
            self._settledness(owners, reports, sum(lag.values())),
            labels_kept(self.topics.labels, self.wrong, starts, group.committed).warnings,
            findings_of(owners, reports.findings),
            self.sinks,
        )

    async def check_labels(self) -> None:
        """Compare the retention of labels with the project's, if this client may."""
        with suppress(ClusterError):
            async with self.admin.answering() as client:
                self.wrong = await wrong_labels_config(client, self.topics.labels)

    async def _look_for_sinks(self) -> None:
        """Update the sinks and their lag now and then; what is in the way of it leaves them be."""
        if monotonic() < self.sinks_at + SINKS_SECONDS:
            return
        self.sinks_at = monotonic()
        topics = (self.topics.posteriors, self.topics.workers, self.topics.assignments)
        partitions = {
            TopicPartition(topic.name, number)
            for topic in topics
            for number in range(topic.partitions)
        }
        with suppress(ClusterError, KafkaError, TimeoutError):
            async with asyncio.timeout(SINKS_WAIT):
                known, applied = await sinks_of(self.admin, partitions)
                read = {tp for each in applied for tp in each.offsets}
                ends = await self.asking.end_offsets(read) if read else {}
            self.sinks = Sinks(
                known,
                [
                    ShownSink(
                        each.name,
                        sum(max(0, ends[tp] - offset) for tp, offset in each.offsets.items()),
                        each.at,
                    )
                    for each in applied
                ],
            )

    async def _flow(self, at: int, starts: Mapping[TopicPartition, int]) -> Flow:
        """Labels in the topic, and those of the last minute by their timestamps."""
        partitions = self.inputs["labels"]
        ends = await self.asking.end_offsets(partitions)
        since = at - 1000 * RATE_SECONDS
        lately = await self.asking.offsets_for_times(dict.fromkeys(partitions, since))
        return Flow(
            sum(ends.values()) - sum(starts.values()),
            sum(ends[tp] - found.offset for tp, found in lately.items() if found),
        )

    def _members(self, group: ConsumerGroup, lags: Mapping[TopicPartition, int]) -> list[Member]:
        return [
            Member(
                member.member_id,
                member.host,
                sorted(self._partitions(member.partitions)),
                sum(lags.get(tp, 0) for tp in member.partitions),
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ]

    def _inputs(self) -> dict[str, Topic]:
        topics = self.topics
        return {
            "labels": topics.labels,
            "votes": topics.votes,
            "tasks": topics.tasks,
            "roster": topics.roster,
            "requests": topics.requests,
        }

    def _partitions(self, assigned: Iterable[TopicPartition]) -> frozenset[int]:
        """Return the partitions of the labels topic among those assigned to a member."""
        labels = self.topics.labels.name
        return frozenset(tp.partition for tp in assigned if tp.topic == labels)

    async def _lags(self, group: ConsumerGroup) -> dict[TopicPartition, int]:
        """Return the lag of the group on each partition."""
        partitions = [tp for some in self.inputs.values() for tp in some]
        ends = await self.asking.end_offsets(partitions)
        starts = await self.asking.beginning_offsets(partitions)
        return {tp: max(0, ends[tp] - group.committed.get(tp, starts[tp])) for tp in partitions}

    def _settledness(
        self, owners: Sequence[frozenset[int]], reports: Reports, lag: int
    ) -> Settledness:
        if not self.settings.algorithm_entry.settles:
            return Settledness(None, "fast-sbic weighs every label once, when it arrives")
        return settledness(owners, reports.rests, reports.moved_at, lag)

    async def _reports(self) -> Reports:
        """Get the last reports of each partition, and when the last other record was published."""
        rests: dict[int, RestReport] = {}
        findings: dict[int, Findings] = {}
        moved_at, classes = 0, len(self.settings.crowd_classes)
        for reader, tail in ((self.estimates, TAIL), (self.posteriors, 1)):
            await reader.move_end(self.asking)
            await reader.go_back(tail, self.asking)
            async for records in reader.to_the_end():
                for record in records:
                    match parse_report(record.value, classes):
                        case Rest() as rest:
                            rests[record.partition] = RestReport(record.timestamp, *rest)
                        case Findings() as found:
                            findings[record.partition] = found
                        case None:
                            moved_at = max(moved_at, record.timestamp)
        return Reports(rests, findings, moved_at)


Take = Callable[[Iterable[ConsumerRecord]], None]


def shown_settings(settings: Settings) -> dict[str, object]:
    """Return the settings that define the numbers, and the rules that close tasks."""
    shown = {name: getattr(settings, name) for name in SHOWN_SETTINGS}
    return shown | {"algorithm": settings.chosen_algorithm}


def empty_summary(settings: Settings) -> Summary:
    """Return the summary of a project before anything is read."""
    return Summary(settings.prefix, shown_settings(settings))


class StatusReader:
    """Keeps a summary up to date: reads each topic once, and then only new records."""

    def __init__(
        self,
        settings: Settings,
        readers: dict[str, Reader],
        asking: AIOKafkaConsumer,
        log: ProjectLog,
        flow: FlowReader,
        topic_ids: TopicIds,
    ) -> None:
        self.settings = settings
        self.topic_ids = topic_ids
        self.topics = Topics(settings)
        self.log = log
        self.readers = readers
        self.asking = asking
        self.flow = flow
        self.summary = empty_summary(settings)
        self.parse = posterior_parser(settings.crowd_classes)

    async def update(self) -> Summary:
        """Read what is new, and return the summary; raises `AddedPartitions`."""
        await check_partitions_on(self.topic_ids, self.asking)
        topics = self.topics
        revision = await self.log.read()
        if revision is not None:
            settings = revision.apply_to(self.settings)
            self.summary.follow(shown_settings(settings))
            self.parse = posterior_parser(settings.crowd_classes)
        group = await self.flow.group()
        await self._read(topics.posteriors.name, self._take_posteriors, "Reading posteriors")
        await self._read(topics.workers.name, self._take_workers, "Reading workers")
        letters = self.summary.letters
        await self._read(topics.dead_letters.name, letters.take, "Reading dead letters")
        await self.flow.check_labels()
        self.summary.update(await self.flow.activity(group))
        return self.summary

    async def _read(self, topic: str, take: Take, title: str) -> None:
        reader = self.readers[topic]
        await reader.move_end(self.asking)
        async for records in reader.to_the_end(title):
            take(records)

    def _take_posteriors(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            if record.value is None:
                self.summary.tasks.remove((record.key or b"").decode(errors="replace"))
            elif posterior := readable(self.parse, record.value):
                self.summary.tasks.add(posterior)

    def _take_workers(self, records: Iterable[ConsumerRecord]) -> None:
        for _, worker in parsed(records, read_worker):
            self.summary.workers.add(worker)


@asynccontextmanager
async def reading_status(settings: Settings) -> AsyncIterator[StatusReader]:
    """Connect a reader of the status."""
    topics = Topics(settings)
    inputs = (topics.labels, topics.votes, topics.tasks, topics.roster, topics.requests)
    await describe_topics(settings, [Need(topic.name, Operation.DESCRIBE) for topic in inputs])
    async with AsyncExitStack() as stack:
        readers = {}
        for topic in (topics.posteriors, topics.workers, topics.dead_letters):
            reader = reading(settings, topic.name, from_start=True)
            readers[topic.name] = await stack.enter_async_context(reader)
        asking = await stack.enter_async_context(connected(committed_consumer(settings), settings))
        flow = await stack.enter_async_context(reading_flow(settings, asking))
        log = await stack.enter_async_context(connected(ProjectLog(settings), settings))
        topic_ids = await stack.enter_async_context(connected(TopicIds(settings), settings))
        yield StatusReader(settings, readers, asking, log, flow, topic_ids)


@asynccontextmanager
async def reading_flow(settings: Settings, asking: AIOKafkaConsumer) -> AsyncIterator[FlowReader]:
    """Connect a reader of the activity."""
    topics = Topics(settings)
    async with (
        reading(settings, topics.posteriors.name, from_start=False) as posteriors,
        reading(settings, topics.estimates.name, from_start=False) as estimates,
        connected(AdminClient(settings), settings) as admin,
    ):
        yield FlowReader(settings, posteriors, estimates, asking, admin)
