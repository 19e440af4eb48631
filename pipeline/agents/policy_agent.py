"""Requests to assignments: reads who is free, publishes which task each of them gets."""

import asyncio
from time import time

from aiokafka import ConsumerRecord
from faust.types import StreamT

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.redirector import Redirector
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.batched.batch import Batch
from pipeline.batched.group_publisher import GroupPublisher, Publication
from pipeline.batched.producer import NO_HEADERS, BatchProducer, Offsets, Outbox
from pipeline.records.assignments import parse_assignment
from pipeline.stages.assignment_stage import Answered, AssignmentStage, Given
from pipeline.stages.rows import Rows
from pipeline.topics import Topics

REQUESTS_AT_ONCE = 100  # each may be for 100 tasks: others get a turn in between
ASSIGNMENTS_AT_ONCE = 5000
TASKS_AT_ONCE = 10_000


class RequestGroup(Answered[ConsumerRecord]):
    """What requests of several partitions came to, to be published together."""

    is_full = False


class PolicyAgent:
    """The loop around `AssignmentStage`; hears from the worker agent which labels were taken.

    An assignment is known here as soon as it is made, and to the others once it is published; the
    one who owns a worker's partition is the only one who gives tasks to that worker. So the
    producer has a fence: an instance that was stalled, and put out of the group, publishes none of
    those that it had made before.
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
        self.groups = GroupPublisher(producer, RequestGroup, self.pack, drop=self.drop)

    async def take_over(self, partitions: set[int]) -> None:
        """Know all leases before the first choice, and finish what the last owner left."""
        await self.follower.catch_up(partitions)
        while self.stage.refresh(now(), limit=TASKS_AT_ONCE):  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0)
        self.stage.take_over(partitions, now(), self.groups.filling)
        self.groups.notify()

    def labels_taken(self, partition: int, rows: Rows) -> None:
        """These labels of one partition were taken."""
        if self.stage.heeds_labels:
            labels = self.stage.workers.labels_of(rows)
            self.stage.labels_taken(partition, labels, now(), self.groups.filling)
            self.groups.notify()

    async def run(self, stream: StreamT[Batch]) -> None:
        """Answer the requests of each batch, and publish the assignments in groups."""
        async for batch in stream:
            for tp, records in batch.parts.items():
                for start in range(0, len(records), REQUESTS_AT_ONCE):
                    piece = records[start : start + REQUESTS_AT_ONCE]
                    if any(record.headers for record in piece):
                        await self.follower.asker.ask()  # where it may have been forwarded from
                    group = await self.groups.acquire()
                    self.stage.answer(tp.partition, piece, now(), group)
                    group.is_full = len(group.timestamps) >= ASSIGNMENTS_AT_ONCE
                    self.groups.notify()
            self.groups.notify(batch)

    def pack(self, group: RequestGroup) -> Publication:
        """The assignments, the ends of leases, dead letters and forwarded requests."""
        outbox = Outbox()
        for partition, given in group.given.items():
            if given:
                rows = [(worker.encode(), value, None, NO_HEADERS) for worker, value in given]
                outbox.add(self.topics.assignments.name, partition, *rows)
        for record, why in group.rejected:
            self.redirector.reject(outbox, record, why)
        for record, worker, home in group.forwarded:
            self.redirector.forward(outbox, record, worker, home)

        def published(_offsets: Offsets, seconds: float) -> None:
            self.metrics.took(self.name, group.requests, seconds)
            self.metrics.assigned(group.requests, group.outcomes, group.timestamps)

        return Publication(outbox, published)

    def drop(self, outbox: Outbox) -> None:
        """Take back what was not published, since this instance has lost its place.

        Whoever owns the partitions next reads the requests again. Leases that have ended are told
        of later; it is true whoever says so.
        """
        for (topic, partition), rows in outbox.items():
            if topic != self.topics.assignments.name:
                continue
            for _, value, *_ in rows:
                assignment = parse_assignment(value)
                if assignment.ended:
                    ended = self.groups.filling.given.setdefault(partition, [])
                    ended.append(Given(assignment.worker, value or b""))
                else:
                    self.metrics.withheld.labels("assignments").inc()
                    if not self.follower.is_published(assignment):
                        self.stage.take_back(assignment, partition)


def now() -> int:
    """The time in milliseconds, as records have it."""
    return int(time() * 1000)
