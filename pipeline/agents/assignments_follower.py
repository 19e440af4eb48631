"""Reads the whole assignments topic into the leases: every instance knows who has which task."""

from collections import defaultdict
from collections.abc import Iterable
from time import time
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.agents.ends import EndsAsker
from pipeline.agents.follower import Follower
from pipeline.agents.rejects import Rejects
from pipeline.agents.retry import retry
from pipeline.records.assignments import Assignment, parse_assignment, place_of
from pipeline.records.bad import BadRecord
from pipeline.settings import Settings
from pipeline.stages.answered_requests import AnsweredRequests, Out
from pipeline.stages.judge import Beyond, Judge
from pipeline.stages.leases import Leases, Source
from pipeline.topics import Topics


class AssignmentsFollower(Follower):
    """Follows the assignments of all partitions, including those of this instance.

    The policy agent has added its own to the leases already; adding them again changes nothing.
    """

    def __init__(
        self,
        settings: Settings,
        leases: Leases,
        judge: Judge,
        asker: EndsAsker,
        rejects: Rejects,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, Topics(settings).assignments, "leases", **kwargs)
        self.leases = leases
        self.judge = judge
        self.asker = asker
        self.rejects = rejects
        self.answered: defaultdict[Source, AnsweredRequests] = defaultdict(AnsweredRequests)

    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Add assignments and the ends of leases to the leases."""
        now = int(time() * 1000)
        sure = False
        for record in records:
            try:
                assignment = parse_assignment(record.value)
                try:
                    self.judge.check_assignment(partition, assignment)
                except Beyond:
                    if sure:
                        raise
                    await self.asker.ask()
                    sure = True  # the ends are newer than all of these records
                    self.judge.check_assignment(partition, assignment)
                if not assignment.ended and not self.is_published(assignment):
                    self.leases.give_way(assignment)
                    self._note(assignment)
                self.leases.learn(assignment, partition, now)
            except BadRecord as bad:
                self.rejects.add(record, bad)

    def _note(self, assignment: Assignment) -> None:
        source, place, offset, number = place_of(assignment.id)
        out = Out(number + 1, assignment.task is None)
        self.answered[source, place].add(offset, assignment.worker, out)

    def is_published(self, assignment: Assignment) -> bool:
        """Whether any instance has published an assignment of this id, or of a later number."""
        source, place, offset, number = place_of(assignment.id)
        out = self.answered[source, place].numbers_out(offset, assignment.worker, number + 1)
        return out > number

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Wait until everything up to the current ends of these partitions is read."""
        places = [self.partitions[partition] for partition in partitions]
        ends: dict[TopicPartition, int] = await retry(
            lambda: self.consumer.end_offsets(places), on=KafkaError
        )
        while any(self.positions[tp.partition] < end for tp, end in ends.items()):
            self.advanced.clear()
            await self.advanced.wait()
