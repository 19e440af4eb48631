"""Reads the whole assignments topic into the leases: every instance knows who has which task."""

import asyncio
from collections.abc import Iterable
from time import monotonic, time
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.agents.follower import Follower
from pipeline.records.assignments import Assignment, parse_assignment, place_of
from pipeline.records.bad import BadRecord
from pipeline.settings import Settings
from pipeline.stages.leases import Leases, Source
from pipeline.topics import Topics

PATIENCE_SECONDS = 120  # as long as a broker may be away


class AssignmentsFollower(Follower):
    """Follows the assignments of all partitions.

    The instance's own come as well. The policy agent has put them into the leases when it made
    them, and what is learned twice changes nothing.
    """

    def __init__(self, settings: Settings, leases: Leases, **kwargs: Any) -> None:
        super().__init__(settings, Topics(settings).assignments, "leases", **kwargs)
        self.leases = leases
        self.answered: dict[Source, tuple[int, int]] = {}  # offset and number of the last read
        self.advanced = asyncio.Event()
        self.learned = self.advanced.set

    def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Put assignments and the ends of leases into the leases."""
        now = int(time() * 1000)
        for record in records:
            try:
                assignment = parse_assignment(record.value)
            except BadRecord:
                continue  # not an sbic record
            self.leases.learn(assignment, now)
            self._note(assignment)

    def _note(self, assignment: Assignment) -> None:
        source = source_of(assignment)
        if source is not None and not assignment.ended:
            place = place_of(assignment.id)[2:]
            self.answered[source] = max(self.answered.get(source, place), place)

    def is_answered(self, value: bytes | None) -> bool:
        """Whether the topic has an assignment of this record's id, or of a later one."""
        assignment = parse_assignment(value)
        source = source_of(assignment)
        if assignment.ended or source not in self.answered:
            return False
        return place_of(assignment.id)[2:] <= self.answered[source]

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Wait until all is known that these partitions have now."""
        ends = await self._ends([self.partitions[p] for p in partitions])
        while any(self.positions[tp.partition] < end for tp, end in ends.items()):
            self.advanced.clear()
            await self.advanced.wait()

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions; aiokafka asks for less long than a broker may be away."""
        last = monotonic() + PATIENCE_SECONDS
        while True:
            try:
                ends: dict[TopicPartition, int] = await self.consumer.end_offsets(partitions)
                return ends
            except KafkaError:
                if monotonic() > last:
                    raise


def source_of(assignment: Assignment) -> Source | None:
    """Where the request of an assignment came from, if the id is any."""
    try:
        return place_of(assignment.id)[:2]
    except ValueError:
        return None
