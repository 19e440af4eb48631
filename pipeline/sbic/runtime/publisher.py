"""Publishes all results of an instance, in steps that a crash between any two cannot harm."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, thread_time
from typing import NamedTuple, Protocol

import numpy as np
from aiokafka import ConsumerRecord
from numpy.typing import ArrayLike

from sbic.engine.labels import Ints
from sbic.instance.crowd import Changes, Crowd, by_home
from sbic.instance.estimates import EstimateRecords, Exchange
from sbic.instance.taken import Forwarded, Rejected, Taken
from sbic.instance.tasks import NO_TASKS, Counted, TaskStage
from sbic.instance.workers import encode_workers
from sbic.project.topics import Topics
from sbic.runtime.faust.groups import GroupPublisher, Publication, Writer
from sbic.runtime.faust.producer import BatchProducer, Offsets, Outbox, Row
from sbic.runtime.logs import DeadLetterLog
from sbic.runtime.metrics import Metrics
from sbic.runtime.traces import Span, SpanExporter, Traces
from sbic.wire.bad import BadRecord
from sbic.wire.changelogs import encode_facts
from sbic.wire.dead_letters import Origin, dead_letter, forwarded_headers, origin_of
from sbic.wire.votes import NOBODY

SHARE = 0.01  # of the time, unless that would take too long


class Throttle:
    """Keeps an interval between two publications: longer ones, up to `most`, if they cost much.

    `notify` is called when the next publication is due.
    """

    def __init__(self, least: float, most: float, notify: Callable[[], None]) -> None:
        self.least = least
        self.most = most
        self.notify = notify
        self.due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether changes may be published now."""
        return monotonic() >= self.due

    def published(self, spent: float) -> None:
        """Wait from now on: a publication has just cost so many seconds."""
        wait = min(max(self.least, spent / SHARE), self.most)
        self.due = monotonic() + wait  # first: `notify` must not come too early
        asyncio.get_running_loop().call_later(wait, self.notify)


# Records that do not belong where they are: to another partition, or to the dead letters.


class Redirected(Protocol):
    """Results of a stage, with the records that it rejects and forwards."""

    @property
    def rejected(self) -> Sequence[Rejected[ConsumerRecord]]:
        """Records for the dead letters."""

    @property
    def forwarded(self) -> Sequence[Forwarded[ConsumerRecord]]:
        """Good records for other partitions of their topic."""


class Redirector:
    """Forwards and rejects records, for all agents."""

    def __init__(self, topics: Topics, metrics: Metrics, log: DeadLetterLog) -> None:
        self.topic = topics.dead_letters.name
        self.partitions = topics.settings.partitions
        self.metrics = metrics
        self.log = log

    def add(self, outbox: Outbox, results: Redirected) -> None:
        """Add the records that a stage rejects, then those that it forwards."""
        for rejected in results.rejected:
            self._reject(outbox, rejected)
        for forwarded in results.forwarded:
            self._forward(outbox, forwarded)

    def count(self, results: Redirected) -> None:
        """Count in the metrics, and log, the records that were published as dead letters."""
        for record, why in results.rejected:
            self.metrics.dead_letters.labels(why.reason).inc()
            self.log.add(self._origin(record), why)

    def _origin(self, record: ConsumerRecord) -> Origin:
        """The topic, partition and offset that a record was first written to."""
        first = origin_of(record.headers, record.topic, self.partitions)
        return first or Origin(record.topic, record.partition, record.offset)

    def _reject(self, outbox: Outbox, rejected: Rejected[ConsumerRecord]) -> None:
        """Add a record to the dead letters, in the partition of the same number."""
        record, why = rejected
        letter = dead_letter(self._origin(record), record.key, record.value, why)
        row = Row(letter.key, letter.value, headers=[*letter.headers])
        outbox.add(self.topic, record.partition, row)

    def _forward(self, outbox: Outbox, forwarded: Forwarded[ConsumerRecord]) -> None:
        """Add a good record to the partition of its key, without headers that are too large."""
        record, key, partition = forwarded
        here = Origin(record.topic, record.partition, record.offset)
        headers = forwarded_headers(record.headers, here)
        outbox.add(
            record.topic, partition, Row(key.encode(), record.value, record.timestamp, headers)
        )


# Publishes dead letters from the topics between instances, apart from the results of agents.


class RejectedRecords:
    """Records to publish together."""

    is_full = False
    forwarded: Sequence[Forwarded[ConsumerRecord]] = ()

    def __init__(self) -> None:
        self.rejected: list[Rejected[ConsumerRecord]] = []


class Rejects:
    """Publishes records that sbic did not write as dead letters.

    They are found during recoveries too, when results of agents must not be published.
    """

    def __init__(self, redirector: Redirector, producer: BatchProducer) -> None:
        self.redirector = redirector
        self.groups = GroupPublisher(producer, RejectedRecords, self.pack)

    def add(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Publish a record as a dead letter."""
        self.groups.filling.rejected.append(Rejected(record, why))
        self.groups.notify()

    def pack(self, group: RejectedRecords) -> Publication:
        """Turn the records into dead letters."""
        outbox = Outbox()
        self.redirector.add(outbox, group)
        return Publication(outbox, lambda _offsets, _seconds: self.redirector.count(group))


# Results of the worker agent and the task agent that are published together.


RECORDS_AT_ONCE = 8_000  # labels and votes in a group


class Evidence(NamedTuple):
    """A record for the evidence topic: votes that are counted now."""

    partition: int
    value: bytes


class Group:
    """Results from several partitions."""

    def __init__(self) -> None:
        self.taken: Taken[ConsumerRecord] = Taken()
        self.evidence: list[Evidence] = []
        self.workers: set[int] = set()
        self.rejected: list[Rejected[ConsumerRecord]] = []  # votes and descriptions
        self.forwarded: list[Forwarded[ConsumerRecord]] = []  # descriptions
        self.estimates: list[EstimateRecords] = []
        self.timestamps: list[Ints] = []  # of labels that the posteriors will count
        self.has_all_estimates = False  # of all tasks and workers of this instance
        self.labels = 0
        self.votes = 0
        self.fenced_votes = 0
        self.records = 0

    @property
    def is_full(self) -> bool:
        """Whether agents have to wait for the next group."""
        return self.records >= RECORDS_AT_ONCE

    def took_labels(self, labels: int) -> None:
        """Note that the group has the results of so many more labels."""
        self.labels += labels
        self.records += labels

    def took_votes(self, partition: int, records: list[ConsumerRecord], counted: Counted) -> None:
        """Add what came of the votes in these records."""
        self.votes += counted.votes
        self.records += max(1, counted.votes)
        self.fenced_votes += counted.fenced
        for place in counted.new:
            self.evidence.append(Evidence(partition, records[place].value))
        self.timestamps.append(counted.timestamps)

    def took_description(self) -> None:
        """Note that the group has the results of one more description."""
        self.records += 1

    def reject(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Add a record for the dead letters."""
        self.rejected.append(Rejected(record, why))


# Records for the estimates topic: changed tasks and workers, at most ten times a second.


ESTIMATES_SECONDS = 0.1, 2.0  # at least, at most


class EstimateUpdates:
    """Tasks and workers whose estimates the other instances do not have yet."""

    def __init__(self, exchange: Exchange, topics: Topics, notify: Callable[[], None]) -> None:
        self.exchange = exchange
        self.crowd = exchange.crowd
        self.topic = topics.estimates.name
        self.tasks = Changes()
        self.workers = Changes()
        self.throttle = Throttle(*ESTIMATES_SECONDS, notify)

    def add_to(self, outbox: Outbox, tasks: Ints, workers: Ints) -> None:
        """Note tasks and workers that moved; add the estimates of all such, if they are due."""
        if self.crowd.is_alone:
            self.tasks.take()
            self.workers.take()
            return
        self.tasks.add(tasks)
        self.workers.add(workers)
        if not (self.tasks or self.workers) or not self.throttle.is_due:
            return
        begun = thread_time()
        moved, known = self.tasks.take(), self.workers.take()
        own = self.crowd.has_workers_of[self.crowd.worker.home[known]]
        estimates = self.exchange.estimates_of(moved[self.crowd.is_own_task(moved)], known[own])
        self.write(outbox, estimates)
        # every other instance spends about as much when it receives them
        self.throttle.published((thread_time() - begun) * self.crowd.instances)

    def write_all(self, outbox: Outbox) -> None:
        """Add the estimates of all own tasks and workers."""
        self.write(outbox, self.exchange.all_estimates())

    def write(self, outbox: Outbox, estimates: EstimateRecords) -> None:
        """Add records for the estimates topic."""
        for partition, values in estimates.items():
            outbox.add(self.topic, partition, *(Row(None, value) for value in values))


# Records for the workers topic: changed workers, at most once a second.


WORKERS_SECONDS = 1.0, 10.0  # at least, at most


class WorkerUpdates:
    """Workers whose records are to be published."""

    def __init__(self, crowd: Crowd, topics: Topics, notify: Callable[[], None]) -> None:
        self.crowd = crowd
        self.topic = topics.workers.name
        self.changed = Changes()
        self.throttle = Throttle(*WORKERS_SECONDS, notify)

    def add(self, workers: ArrayLike) -> None:
        """Publish these workers when the next publication is due."""
        self.changed.add(workers)

    def add_to(self, outbox: Outbox, *, is_flushing: bool) -> None:
        """Add the records of own workers that have changed, if they are due or flushed."""
        if not self.changed or not (self.throttle.is_due or is_flushing):
            return
        begun = thread_time()
        changed = self.changed.take()
        own = changed[self.crowd.has_workers_of[self.crowd.worker.home[changed]]]
        for partition, key, value in encode_workers(self.crowd, own):
            outbox.add(self.topic, partition, Row(key, value))
        self.throttle.published(thread_time() - begun)


# Publishes the results that the worker agent and the task agent get from one engine.
#
# A group is published in steps. First the changelogs, from which the next owner recovers: the
# answers of workers, and the votes of other instances as the evidence of tasks. Then what follows
# from them, together with the changelogs of the next group: own votes, as evidence or to the owners
# of their tasks, posteriors, workers and estimates. So a posterior never counts a label that a
# crash could undo.
#
# After a crash between the two steps, the next owner publishes the last votes again, and the
# posteriors of the tasks of the last seconds: fences drop what was counted. Bad and forwarded
# labels are published before the answers, which only say that they were taken: a crash may publish
# them twice, but loses none.


TASKS_AT_ONCE = 8_000


class Publisher:
    """One group publisher for all results of the engine.

    `mark_stale` lets the app discard all state, and recover it, when it joins the group again.
    """

    def __init__(
        self,
        stage: TaskStage,
        exchange: Exchange,
        topics: Topics,
        producer: BatchProducer,
        metrics: Metrics,
        redirector: Redirector,
        mark_stale: Callable[[], None],
        spans: SpanExporter,
        writers: Sequence[Writer] = (),
    ) -> None:
        self.stage = stage
        self.crowd = stage.crowd
        self.exchange = exchange
        self.topics = topics
        self.metrics = metrics
        self.redirector = redirector
        self.mark_stale = mark_stale
        self.traces = Traces(self.crowd)
        self.spans = spans
        self.groups = GroupPublisher(producer, Group, self.pack, self.drop, writers)
        self.worker_updates = WorkerUpdates(self.crowd, topics, self.groups.notify)
        self.estimate_updates = EstimateUpdates(exchange, topics, self.groups.notify)
        self.withheld_tasks = Changes()  # to publish after the next recovery
        self.withheld_workers = Changes()
        self.took_labels_at = 0.0

    def took_labels(self) -> None:
        """Note that labels have just been taken."""
        self.took_labels_at = monotonic()

    def pack(self, group: Group) -> Publication:
        """Turn a group into dead letters and forwarded records, changelogs, and outputs."""
        before, changelog, outputs = Outbox(), Outbox(), Outbox()
        self._add_taken(group, before, changelog, outputs)
        self.redirector.add(before, group)
        for partition, value in group.evidence:
            changelog.add(self.topics.evidence.name, partition, Row(None, value))
        spans: list[Span] = []
        for home in list(self.traces.away):
            spans += self.traces.mark_votes(home, outputs.get((self.topics.votes.name, home), []))
        tasks = self._tasks()
        workers = self._workers(group)
        self.stage.apply_rules(tasks)
        for partition, facts in self.stage.facts():
            changelog.add(self.topics.evidence.name, partition, Row(None, encode_facts(facts)))
        spans += self._add_posteriors(outputs, tasks)
        self._add_estimates(outputs, group, tasks, workers)
        if self.stage.is_restored:
            self.worker_updates.add_to(outputs, is_flushing=self.groups.is_flushing)

        def published(_offsets: Offsets, seconds: float) -> None:
            self._count(group, len(tasks), seconds)
            self.spans.export(spans)
            self.check_budget()

        if not changelog:
            changelog, outputs = outputs, changelog
        return Publication(changelog, published, before, outputs)

    def _add_taken(self, group: Group, before: Outbox, changelog: Outbox, outputs: Outbox) -> None:
        self.redirector.add(before, group.taken)
        for partition, values in group.taken.records():
            rows = [Row(None, value) for value in values]
            changelog.add(self.topics.answers.name, partition, *rows)
        for source, home, value, offsets in group.taken.votes:
            if home != NOBODY and self.crowd.has_tasks_of[home]:
                self.stage.count_own(home, source, offsets)
                group.votes += len(offsets)
                outputs.add(self.topics.evidence.name, home, Row(None, value))
            else:
                self.add_votes(outputs, home, value)

    def add_votes(self, outbox: Outbox, home: int, value: bytes) -> None:
        """Add a record of votes, for a partition of tasks or for nobody."""
        if home != NOBODY:
            outbox.add(self.topics.votes.name, home, Row(None, value))

    def _add_posteriors(self, outbox: Outbox, tasks: Ints) -> list[Span]:
        """Add the posteriors of these tasks; return the spans of traced labels that they count."""
        rows = list(map(Row, *self.stage.posteriors(tasks)))
        spans = self.traces.mark_posteriors(tasks, rows)
        for partition, places in by_home(self.crowd.task.home[tasks]):
            outbox.add(self.topics.posteriors.name, partition, *map(rows.__getitem__, places))
        return spans

    def _add_estimates(self, outbox: Outbox, group: Group, tasks: Ints, workers: Ints) -> None:
        if group.has_all_estimates:
            self.estimate_updates.write_all(outbox)
        self.estimate_updates.add_to(outbox, tasks, workers)
        for estimates in group.estimates:
            self.estimate_updates.write(outbox, estimates)

    def _count(self, group: Group, posteriors: int, seconds: float) -> None:
        """Count in the metrics what was published."""
        self.redirector.count(group.taken)
        self.redirector.count(group)
        self.metrics.took("worker", group.labels, seconds)
        self.metrics.took("task", group.votes, seconds)
        for outcome, labels in group.taken.outcomes.items():
            if labels:
                self.metrics.labels.labels(outcome).inc(labels)
        self.metrics.votes.inc(group.votes)
        self.metrics.fenced_votes.inc(group.fenced_votes)
        self.metrics.posteriors.inc(posteriors)
        self.metrics.dated(group.timestamps)

    def publish_all_estimates(self) -> None:
        """Publish the estimates of all own tasks and workers."""
        self.groups.filling.has_all_estimates = True
        self.groups.notify()

    def publish_estimates(self, estimates: EstimateRecords) -> None:
        """Publish records in the estimates topic."""
        self.groups.filling.estimates.append(estimates)
        self.groups.notify()

    def publish_tasks(self, tasks: Ints) -> None:
        """Publish the posteriors of these tasks, whether they moved or not."""
        self.crowd.touched.add(tasks)
        self.groups.notify()

    def publish_workers(self, workers: Ints) -> None:
        """Publish these workers when the next publication of workers is due."""
        self.groups.filling.workers.update(workers.tolist())
        self.groups.notify()

    def drop(self, outbox: Outbox) -> None:
        """Handle records that were not published because Kafka removed this instance.

        The next owners count the same labels again. Here they are counted already, so the state is
        stale; unless there are only posteriors and workers, of which the own ones are published
        after the recovery, and estimates, which are all published again after every rebalance.
        """
        for (topic, _), rows in outbox.items():
            keys = sorted({(row.key or b"").decode() for row in rows})
            if topic == self.topics.posteriors.name:
                self.metrics.withheld.labels("posteriors").inc(len(rows))
                self.withheld_tasks.add(self.crowd.number_tasks(keys))
            elif topic == self.topics.workers.name:
                self.metrics.withheld.labels("workers").inc(len(rows))
                self.withheld_workers.add(self.crowd.number_workers(keys))
            elif topic != self.topics.estimates.name:
                self.mark_stale()

    def _tasks(self) -> Ints:
        """Return the own tasks to publish; none during a recovery.

        Of many tasks only some: the others are in the next groups, so that heartbeats go on.
        """
        if not self.stage.is_restored:
            return NO_TASKS
        tasks = self.crowd.moved(TASKS_AT_ONCE)
        if self.crowd.has_moved:
            self.groups.notify()
        return tasks

    def _workers(self, group: Group) -> Ints:
        """Return the workers that moved; they and those who gave labels are to be published."""
        moved = self.crowd.engine.moved_workers() if self.stage.is_restored else NO_TASKS
        for workers in group.taken.workers:
            self.worker_updates.add(np.unique(workers))
        self.worker_updates.add(moved)
        self.worker_updates.add(list(group.workers))
        return moved

    def check_budget(self) -> None:
        """Close the open tasks of this instance once all instances have spent the budget."""
        if self.stage.check_budget():
            self.apply_rules_to(self.stage.partitions)

    def apply_rules_to(self, partitions: Iterable[int]) -> None:
        """Close the tasks that the rules close, and publish them."""
        for partition in partitions:
            changed = self.stage.apply_rules_to_all(partition)
            if len(changed):
                self.publish_tasks(changed)
