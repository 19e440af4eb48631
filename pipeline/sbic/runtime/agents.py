"""The loops between Kafka and the instance: labels, votes, tasks and roster, requests, settling."""

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic, time
from typing import Any, Protocol

from aiokafka import ConsumerRecord
from faust.types import StreamT
from mode import Service

from sbic.instance.crowd import Rows, by_home
from sbic.instance.instance import Instance
from sbic.instance.publication import Outbox
from sbic.instance.requests import Answered, AssignmentStage, GivenRecord
from sbic.instance.workers import WorkerStage
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import committed_offsets
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.runtime.faust.consumer import Batch
from sbic.runtime.faust.groups import GroupPublisher, Steps
from sbic.runtime.faust.producer import BatchProducer, Offsets
from sbic.runtime.faust.stop import CannotStart, abort
from sbic.runtime.followers import (
    AssignmentsFollower,
    EstimatesFollower,
    read_roster,
    retry,
    unread_votes,
)
from sbic.runtime.logs import SettledLog
from sbic.runtime.metrics import Metrics
from sbic.runtime.publisher import MeteredRedirector, Publisher, Rejects
from sbic.wire.assignments import parse_assignment
from sbic.wire.partitions import Row

# Refuses to start if the answers topic lacks labels that were taken.
#
# Answers are missing when another version of sbic has written them in its own format, or when
# somebody has deleted the internal topics. Without them, later labels would be counted as if there
# had been no earlier ones.


async def check_continuity(settings: Settings, stage: WorkerStage, partitions: set[int]) -> None:
    """Compare the restored answers of new partitions with the committed offsets.

    Raises `CannotStart` if committed labels have no answers.
    """
    new = {partition for partition in partitions if not stage.partitions[partition].is_ready}
    if not new:
        return
    topic = Topics(settings).labels.name
    committed = await retry(
        lambda: committed_offsets(settings, settings.prefix, topic), on=ClusterError
    )
    for partition in sorted(new):
        taken, before = stage.partitions[partition].taken, committed.get(partition, 0)
        if before > taken + 1:
            raise CannotStart(
                f"labels of {topic} up to offset {before - 1:,} of partition {partition} were "
                f"taken, but {Topics(settings).answers.name} has them only up to {taken:,}: it "
                "was written by another version of sbic, or deleted. No label is lost: count all "
                f"of them again with: sbic project recount --prefix {settings.prefix}"
            )


# Labels to votes: takes batches of labels into the engine.


LABELS_AT_ONCE = 100_000  # refreshed before other tasks of the loop run: some milliseconds


class LabelsListener(Protocol):
    """Is notified of the labels that are taken."""

    async def take_over(self, partitions: set[int]) -> None:
        """Take over partitions whose answers are recovered, before any label is taken."""

    def labels_taken(self, rows: Rows) -> None:
        """Note that these labels were taken."""


class WorkerAgent:
    """The loop that takes labels, and the state behind the answers table."""

    name = "worker"

    def __init__(
        self,
        settings: Settings,
        instance: Instance[ConsumerRecord],
        publisher: Publisher,
        listener: LabelsListener,
        rejects: Rejects,
    ) -> None:
        self.rejects = rejects
        self.settings = settings
        self.instance = instance
        self.publisher = publisher
        self.listener = listener
        self.open = instance.open_workers
        self.close = instance.close_workers

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the answers topic; those that sbic did not write are dead letters."""
        for record, why in self.instance.restore_answers(partition, records):
            self.rejects.add(record, why)

    async def ready(self, partitions: set[int], _generation: int) -> None:
        """Refresh the restored tasks, and publish the last votes of each partition again."""
        await check_continuity(self.settings, self.instance.workers, partitions)
        while self.instance.refresh(LABELS_AT_ONCE):  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0)
        self.instance.workers_ready(partitions)
        await self._read_roster(partitions)
        await self.listener.take_over(partitions)
        for partition in partitions:
            await self.publisher.groups.producer.publish(self.instance.last_votes(partition))
        self.instance.last_votes_published(partitions)

    async def _read_roster(self, partitions: set[int]) -> None:
        """Learn who is blocked before anybody is answered."""
        if partitions:
            self.instance.restore_roster(
                await retry(
                    lambda: read_roster(self.settings, self.instance, partitions), on=ClusterError
                )
            )

    async def run(self, stream: StreamT[Batch]) -> None:
        """Take the labels of each batch, a piece at a time, and publish the results in groups."""
        groups = self.publisher.groups
        async for batch in stream:
            for piece in _pieces(batch, self.instance.workers.labels_at_once):
                await groups.acquire()
                rows = self.instance.take(piece)
                self.publisher.took_labels()
                if rows is not None:
                    self.listener.labels_taken(rows)
                groups.notify()
            groups.notify(batch)


def _pieces(batch: Batch, size: int) -> Iterator[dict[int, list[ConsumerRecord]]]:
    """Split the labels of a batch into pieces of about `size`, with some of every partition."""
    parts, start = {tp.partition: records for tp, records in batch.parts.items()}, 0
    while parts:
        share = max(1, size // len(parts))
        yield {partition: records[start : start + share] for partition, records in parts.items()}
        start += share
        parts = {partition: records for partition, records in parts.items() if len(records) > start}


# Votes to beliefs: counts votes, and applies the descriptions of tasks.


RECORDS_AT_ONCE = 16  # of votes or descriptions; a record of votes has up to some thousand


class TaskAgent:
    """The loop that counts votes and applies what users say; the state behind the tasks table."""

    name = "task"

    def __init__(
        self,
        settings: Settings,
        instance: Instance[ConsumerRecord],
        publisher: Publisher,
        follower: EstimatesFollower,
        rejects: Rejects,
    ) -> None:
        self.settings = settings
        self.topics = Topics(settings)
        self.rejects = rejects
        self.instance = instance
        self.groups = publisher.groups
        self.follower = follower
        self.open = instance.open_tasks
        self.close = instance.close_tasks

    def restore(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Apply records of the evidence topic; those that sbic did not write are dead letters."""
        for record, why in self.instance.restore_evidence(partition, records):
            self.rejects.add(record, why)

    async def ready(self, partitions: set[int], generation: int) -> None:
        """Publish the estimates of these partitions, and wait for those of all others.

        At last, votes are counted that are not read yet.
        """
        self.instance.tasks_ready(partitions, generation)
        if partitions:
            await self.follower.receive_all()
            await retry(lambda: self._count_unread(partitions), on=ClusterError)

    async def _count_unread(self, partitions: set[int]) -> None:
        async for partition, records in unread_votes(self.settings, partitions):
            await self._count_all(partition, records, come_again=True)

    async def run(self, stream: StreamT[Batch]) -> None:
        """Apply the records of each batch, and publish the posteriors in groups."""
        async for batch in stream:
            for tp, records in batch.parts.items():
                if tp.topic == self.topics.tasks.name:
                    await self._apply_all(records, self.instance.describe)
                elif tp.topic == self.topics.roster.name:
                    await self._apply_all(records, self.instance.enlist)
                else:
                    await self._count_all(tp.partition, records)
            self.groups.notify(batch)

    async def _count_all(
        self, partition: int, records: list[ConsumerRecord], *, come_again: bool = False
    ) -> None:
        """Count records of votes."""
        for start in range(0, len(records), RECORDS_AT_ONCE):
            await self.groups.acquire()
            some = records[start : start + RECORDS_AT_ONCE]
            self.instance.count(partition, some, come_again=come_again)
            self.groups.notify()

    async def _apply_all(
        self, records: list[ConsumerRecord], apply: Callable[[ConsumerRecord], None]
    ) -> None:
        """Apply descriptions of tasks, or records of the roster."""
        for start in range(0, len(records), RECORDS_AT_ONCE):
            await self.groups.acquire()
            for record in records[start : start + RECORDS_AT_ONCE]:
                apply(record)
            self.groups.notify()


# Requests to assignments: publishes which task each worker gets who asks for one.


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
        redirector: MeteredRedirector,
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
                    group = await self.groups.acquire()
                    self.stage.answer(tp.partition, piece, now(), group)
                    self.groups.notify()
            self.groups.notify(batch)

    def pack(self, group: RequestGroup) -> Steps:
        """Turn a group into assignments, ends of leases, dead letters and forwarded requests."""
        outbox = Outbox()
        for partition, given in group.given.items():
            if given:
                topic, seal = self.topics.assignments.name, self.follower.seal
                rows = [
                    Row(worker.encode(), value, headers=[seal.header(topic, partition, value)])
                    for worker, value in given
                ]
                outbox.add(topic, partition, *rows)
        self.redirector.add(outbox, group)

        def published(_offsets: Offsets, seconds: float) -> None:
            self.metrics.took(self.name, group.requests, seconds)
            self.metrics.assigned(group.requests, group.outcomes, group.timestamps)
            self.redirector.count(group)

        return Steps(outbox, published)

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
                    ended.append(GivenRecord(assignment.worker, row.value or b""))
                else:
                    self.metrics.withheld.labels("assignments").inc()
                    if not self.stage.leases.is_published(assignment):
                        self.stage.take_back(assignment, partition)


def now() -> int:
    """Return the time in milliseconds, as in the timestamps of records."""
    return int(time() * 1000)


# Refreshes, in the background, tasks whose workers have become better known.


SETTLED_AT_ONCE = 2_000  # weighed again in one step: about a millisecond
BUSY_SECONDS = 0.1  # for which an instance counts as busy after a label
SHARE = 0.05  # of the time while it is busy, publishing included
PUBLISHING_SECONDS = 6e-6  # for each task
AT_LEAST_SECONDS = 0.1  # of work before it waits
IDLE_SECONDS = 0.05
SECONDS_BETWEEN_REPORTS = 2.0


class Settler(Service):
    """Lets the engine come to rest; new labels always go first.

    Every few seconds it publishes in the estimates topic whether the engine is at rest, for
    `sbic status`. `is_caught_up` returns whether this instance has no lag.
    """

    def __init__(
        self, publisher: Publisher, is_caught_up: Callable[[], bool], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.publisher = publisher
        self.instance = publisher.instance
        self.is_caught_up = is_caught_up
        self.refresh_due = self.report_due = 0.0
        self.engine = self.instance.crowd.engine
        self.settled_log = SettledLog()

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                if not self._is_busy or monotonic() >= self.refresh_due:
                    await self._refresh()
                self._report(monotonic())
                await asyncio.sleep(IDLE_SECONDS)
        except Exception as error:
            abort(error)

    async def _refresh(self) -> None:
        """Refresh due tasks: all, or while labels arrive only some, and the others later.

        A task that becomes due several times before that is refreshed once.
        """
        spent, moved = 0.0, self.engine.tasks_moved
        while self._may_refresh and not self.engine.is_at_rest:
            begun = monotonic()
            self.engine.refresh_due(SETTLED_AT_ONCE)
            spent += monotonic() - begun
            await asyncio.sleep(0)
            if self._is_busy and spent > AT_LEAST_SECONDS:
                break
        spent += PUBLISHING_SECONDS * max(0, self.engine.tasks_moved - moved)
        if self.engine.has_news:
            self.publisher.groups.notify()
        self.refresh_due = monotonic() + max(spent, AT_LEAST_SECONDS) * (1 / SHARE - 1)

    def _report(self, now: float) -> None:
        if now < self.report_due:
            return
        self.report_due = now + SECONDS_BETWEEN_REPORTS
        rests = self.is_at_rest and not self.engine.has_news and self.is_caught_up()
        self.settled_log.look(rests, self.engine.due, now)
        if estimates := self.instance.exchange.rest(rests):
            self.instance.publish_estimates(estimates)

    @property
    def is_at_rest(self) -> bool:
        """Whether everything is restored and no task is due."""
        return self.instance.tasks.is_restored and self.engine.is_at_rest

    @property
    def _may_refresh(self) -> bool:
        """Not while a rebalance or a stop waits until all is published: there would be more."""
        is_flushing = self.publisher.groups.is_flushing
        return self.instance.tasks.is_restored and not (is_flushing or self.should_stop)

    @property
    def _is_busy(self) -> bool:
        return monotonic() < self.publisher.took_labels_at + BUSY_SECONDS
