"""Requests to assignments: publishes which task each worker gets who asks for one."""

import asyncio
from time import time

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.redirector import Redirector
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.batched.batch import Batch
from pipeline.batched.group_publisher import GroupPublisher, Publication
from pipeline.batched.producer import BatchProducer, Offsets, Outbox, Row
from pipeline.records.assignments import parse_assignment
from pipeline.stages.assignment_stage import Answered, AssignmentStage, Given
from pipeline.stages.rows import Rows, by_home
from pipeline.topics import Topics

REQUESTS_AT_ONCE = 100  # each may be for 100 tasks: other tasks of the loop run in between
ASSIGNMENTS_AT_ONCE = 5000
TASKS_AT_ONCE = 10_000


class RequestGroup(Answered[ConsumerRecord]):
    """Answers to requests of several partitions that are published together."""

    @property
    def is_full(self) -> bool:
        """Whether the agent has to wait for the next group."""
        return len(self.timestamps) >= ASSIGNMENTS_AT_ONCE


class PolicyAgent:
    """The loop around `AssignmentStage`; the worker agent notifies it of the labels taken.

    This instance knows an assignment as soon as it is made, the others once it is published. Only
    the owner of a worker's partition assigns tasks to that worker. So the producer has a fence: an
    instance that was stalled, and removed from the group, publishes no assignment made before.
    """

    name = "policy"

    def __init__(
        self,
        stage: AssignmentStage,
        follower: AssignmentsFollower,
        topics: Topics,
        producer: BatchProducer,
        metrics: Metrics,
        redirector: Redirector,
    ) -> None:
        self.stage = stage
        self.follower = follower
        self.topics = topics
        self.metrics = metrics
        self.redirector = redirector
        self.groups = GroupPublisher(producer, RequestGroup, self.pack, self.drop)

    async def take_over(self, partitions: set[int]) -> None:
        """Read all leases before the first choice, and complete what the last owner began."""
        await self.follower.catch_up(partitions)
        while self.stage.refresh(now(), limit=TASKS_AT_ONCE):  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0)
        self.stage.take_over(partitions, now(), self.groups.filling)
        self.groups.notify()

    def labels_taken(self, rows: Rows) -> None:
        """Assign further tasks to the workers who gave these labels, if the rules say so."""
        if self.stage.heeds_labels:
            for partition, places in by_home(rows.sources):
                labels = self.stage.workers.labels_of(rows.only(places))
                self.stage.labels_taken(partition, labels, now(), self.groups.filling)
            self.groups.notify()

    async def run(self, stream: StreamT[Batch]) -> None:
        """Answer the requests of each batch, and publish the assignments in groups."""
        async for batch in stream:
            for tp, records in batch.parts.items():
                for start in range(0, len(records), REQUESTS_AT_ONCE):
                    piece = records[start : start + REQUESTS_AT_ONCE]
                    if any(record.headers for record in piece):
                        await self.follower.asker.ask()  # to check where it was forwarded from
                    group = await self.groups.acquire()
                    self.stage.answer(tp.partition, piece, now(), group)
                    self.groups.notify()
            self.groups.notify(batch)

    def pack(self, group: RequestGroup) -> Publication:
        """Turn a group into assignments, ends of leases, dead letters and forwarded requests."""
        outbox = Outbox()
        for partition, given in group.given.items():
            if given:
                rows = [Row(worker.encode(), value) for worker, value in given]
                outbox.add(self.topics.assignments.name, partition, *rows)
        self.redirector.add(outbox, group)

        def published(_offsets: Offsets, seconds: float) -> None:
            self.metrics.took(self.name, group.requests, seconds)
            self.metrics.assigned(group.requests, group.outcomes, group.timestamps)
            self.redirector.count(group)

        return Publication(outbox, published)

    def drop(self, outbox: Outbox) -> None:
        """Undo assignments that were not published because Kafka removed this instance.

        The next owner of the partitions reads the requests again. The ends of leases are published
        later: they are true whichever instance publishes them.
        """
        for (topic, partition), rows in outbox.items():
            if topic != self.topics.assignments.name:
                continue
            for row in rows:
                assignment = parse_assignment(row.value)
                if assignment.ended:
                    ended = self.groups.filling.given.setdefault(partition, [])
                    ended.append(Given(assignment.worker, row.value or b""))
                else:
                    self.metrics.withheld.labels("assignments").inc()
                    if not self.follower.is_published(assignment):
                        self.stage.take_back(assignment, partition)


def now() -> int:
    """Return the time in milliseconds, as in the timestamps of records."""
    return int(time() * 1000)
