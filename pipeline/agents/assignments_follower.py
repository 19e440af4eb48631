"""Reads the whole assignments topic into the leases: every instance knows who has which task."""

import asyncio
from collections.abc import Iterable
from time import time
from typing import Any

from aiokafka import ConsumerRecord

from pipeline.agents.ends import EndsAsker
from pipeline.agents.follower import Follower
from pipeline.agents.rejects import Rejects
from pipeline.records.assignments import parse_assignment
from pipeline.records.bad import BadRecord
from pipeline.settings import Settings
from pipeline.stages.judge import Beyond, Judge
from pipeline.stages.leases import Leases
from pipeline.topics import Topics


class AssignmentsFollower(Follower):
    """Follows the assignments of all partitions.

    The instance's own come as well. The policy agent has put them into the leases when it made
    them, and what is learned twice changes nothing.
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
        self.advanced = asyncio.Event()
        self.learned = self.advanced.set

    async def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Put assignments and the ends of leases into the leases."""
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
                    sure = True  # all of these records were read before
                    self.judge.check_assignment(partition, assignment)
                self.leases.learn(assignment, partition, now)
            except BadRecord as bad:
                self.rejects.add(record, bad)

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Wait until all is known that these partitions have now."""
        ends = await self.consumer.end_offsets([self.partitions[p] for p in partitions])
        while any(self.positions[tp.partition] < end for tp, end in ends.items()):
            self.advanced.clear()
            await self.advanced.wait()
