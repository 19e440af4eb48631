"""The activity of a project: the rate of labels, the group with its lag, and settledness."""

from collections.abc import Iterable, Mapping
from time import time

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.kafka.groups import Group, describe_group
from pipeline.kafka.reading import Reader
from pipeline.records.estimates import parse_rest
from pipeline.settings import Settings
from pipeline.status.report import RATE_SECONDS, Activity, Flow, Member
from pipeline.status.rest import RestReport, Settledness, settledness
from pipeline.topics import Topic, Topics

TAIL = 100  # records of a partition of estimates: more than instances publish in two seconds


class FlowReader:
    """Asks Kafka for offsets and the group, and reads the last posteriors and estimates."""

    def __init__(
        self, settings: Settings, posteriors: Reader, estimates: Reader, asking: AIOKafkaConsumer
    ) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.posteriors = posteriors
        self.estimates = estimates
        self.asking = asking
        self.inputs = {
            name: [TopicPartition(topic.name, tp.partition) for tp in posteriors.partitions]
            for name, topic in self._inputs().items()
        }

    async def group(self) -> Group:
        """The group now; read it before the topics, so that the lag is not underestimated."""
        return await describe_group(self.settings, self.settings.prefix)

    async def activity(self, group: Group) -> Activity:
        """The activity now, of a group that was just read."""
        at = int(1000 * time())
        flow = await self._flow(at)
        lags = await self._lags(group)
        lag = {name: sum(lags[tp] for tp in partitions) for name, partitions in self.inputs.items()}
        return Activity(
            at,
            flow,
            group.state,
            self._members(group, lags),
            lag,
            await self._settledness(group, sum(lag.values())),
        )

    async def _flow(self, at: int) -> Flow:
        """Labels in the topic, and those of the last minute by their timestamps."""
        partitions = self.inputs["labels"]
        ends = await self.asking.end_offsets(partitions)
        starts = await self.asking.beginning_offsets(partitions)
        since = at - 1000 * RATE_SECONDS
        lately = await self.asking.offsets_for_times(dict.fromkeys(partitions, since))
        return Flow(
            sum(ends.values()) - sum(starts.values()),
            sum(ends[tp] - found.offset for tp, found in lately.items() if found),
        )

    def _members(self, group: Group, lags: Mapping[TopicPartition, int]) -> list[Member]:
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
            "requests": topics.requests,
        }

    def _partitions(self, assigned: Iterable[TopicPartition]) -> frozenset[int]:
        """The partitions of the labels topic among those assigned to a member."""
        labels = self.topics.labels.name
        return frozenset(tp.partition for tp in assigned if tp.topic == labels)

    async def _lags(self, group: Group) -> dict[TopicPartition, int]:
        """The lag of the group on each partition."""
        partitions = [tp for some in self.inputs.values() for tp in some]
        ends = await self.asking.end_offsets(partitions)
        starts = await self.asking.beginning_offsets(partitions)
        return {tp: max(0, ends[tp] - group.committed.get(tp, starts[tp])) for tp in partitions}

    async def _settledness(self, group: Group, lag: int) -> Settledness:
        if not self.settings.algorithm_entry.settles:
            return Settledness(None, "fast-sbic weighs every label once, when it arrives")
        reports, moved_at = await self._reports()
        owners = [self._partitions(member.partitions) for member in group.members]
        return settledness(owners, reports, moved_at, lag)

    async def _reports(self) -> tuple[dict[int, RestReport], int]:
        """The last report of each partition, and when the last other record was published."""
        reports: dict[int, RestReport] = {}
        moved_at = 0
        for reader, tail in ((self.estimates, TAIL), (self.posteriors, 1)):
            await reader.move_end(self.asking)
            await reader.go_back(tail, self.asking)
            async for records in reader.to_the_end():
                for record in records:
                    rest = parse_rest(record.value)
                    if rest is None:
                        moved_at = max(moved_at, record.timestamp)
                    else:
                        reports[record.partition] = RestReport(record.timestamp, *rest)
        return reports, moved_at
