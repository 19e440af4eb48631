"""What moves in a project: labels that come in, what waits, who is at work, and who is at rest."""

from collections.abc import Iterable
from time import time

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.kafka.admin import Group, describe_group
from pipeline.kafka.reading import Reader
from pipeline.records.estimates import parse_rest
from pipeline.settings import Settings
from pipeline.status.report import RATE_SECONDS, Flow, Member, Summary
from pipeline.status.rest import SaidRest, Settledness, settledness
from pipeline.topics import Topic, Topics

TAIL = 100  # records of each partition of estimates: more than instances tell in two seconds


class FlowReader:
    """Asks Kafka for offsets and for the group, and reads the end of votes and estimates."""

    def __init__(
        self, settings: Settings, votes: Reader, estimates: Reader, asking: AIOKafkaConsumer
    ) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.votes = votes
        self.estimates = estimates
        self.asking = asking
        self.places = {
            name: [TopicPartition(topic.name, place.partition) for place in votes.partitions]
            for name, topic in self._inputs().items()
        }

    async def group(self) -> Group:
        """The group as it is now; before topics are read, so that the lag is not less than it."""
        return await describe_group(self.settings, self.settings.prefix)

    async def tell(self, summary: Summary, group: Group) -> None:
        """Put what is known now into the summary."""
        at = int(1000 * time())
        summary.flow = await self._flow(at)
        await self._describe(summary, group)
        summary.settled = await self._settledness(group, sum(summary.lag.values()))
        summary.at = at

    async def _flow(self, at: int) -> Flow:
        """Labels in the topic, and those of late by their timestamps."""
        places = self.places["labels"]
        ends = await self.asking.end_offsets(places)
        starts = await self.asking.beginning_offsets(places)
        since = at - 1000 * RATE_SECONDS
        lately = await self.asking.offsets_for_times(dict.fromkeys(places, since))
        return Flow(
            sum(ends.values()) - sum(starts.values()),
            sum(ends[place] - found.offset for place, found in lately.items() if found),
        )

    async def _describe(self, summary: Summary, group: Group) -> None:
        """Instances, and what waits for them."""
        lags = await self._lags(group)
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

    async def _settledness(self, group: Group, lag: int) -> Settledness:
        if not self.settings.algorithm_entry.settles:
            return Settledness(None, "fast-sbic weighs every label once, as it comes")
        said, moved_at = await self._said()
        owners = [self._partitions(member.partitions) for member in group.members]
        return settledness(owners, said, moved_at, lag)

    async def _said(self) -> tuple[dict[int, SaidRest], int]:
        """What instances said last of rest, and when the last vote or estimate was written."""
        said: dict[int, SaidRest] = {}
        moved_at = 0
        for reader, tail in ((self.estimates, TAIL), (self.votes, 1)):
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
