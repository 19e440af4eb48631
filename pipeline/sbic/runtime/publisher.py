"""Publishes what an instance has to publish, and dead letters; counts what was published."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from aiokafka import ConsumerRecord

from sbic.instance.instance import Instance
from sbic.instance.instance import Publication as Records
from sbic.instance.publication import Group, Outbox, Redirected, Redirector
from sbic.instance.taken import Forwarded, Rejected
from sbic.project.topics import Topics
from sbic.runtime.faust.groups import GroupPublisher, OnPublished, Steps
from sbic.runtime.faust.producer import BatchProducer, Offsets
from sbic.runtime.logs import DeadLetterLog
from sbic.runtime.metrics import Metrics
from sbic.runtime.traces import SpanExporter
from sbic.wire.bad import BadRecord
from sbic.wire.seal import Seal


class MeteredRedirector(Redirector):
    """Also counts and logs dead letters, once they are published."""

    def __init__(self, topics: Topics, seal: Seal, metrics: Metrics, log: DeadLetterLog) -> None:
        super().__init__(topics.dead_letters.name, topics.settings.partitions, seal)
        self.metrics = metrics
        self.log = log

    def count(self, results: Redirected[ConsumerRecord]) -> None:
        """Count in the metrics, and log, the records that were published as dead letters."""
        for record, why in results.rejected:
            self.metrics.dead_letters.labels(why.reason).inc()
            self.log.add(self.origin(record), why)


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

    def __init__(self, redirector: MeteredRedirector, producer: BatchProducer) -> None:
        self.redirector = redirector
        self.groups = GroupPublisher(producer, RejectedRecords, self.pack)

    def add(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Publish a record as a dead letter."""
        self.groups.filling.rejected.append(Rejected(record, why))
        self.groups.notify()

    def pack(self, group: RejectedRecords) -> Steps:
        """Turn the records into dead letters."""
        outbox = Outbox()
        self.redirector.add(outbox, group)
        return Steps(outbox, lambda _offsets, _seconds: self.redirector.count(group))


class Publisher:
    """Publishes the groups of an instance, one after the other.

    `mark_stale` lets the app discard all state, and recover it, when it joins the group again.
    """

    def __init__(
        self,
        instance: Instance[ConsumerRecord],
        producer: BatchProducer,
        metrics: Metrics,
        redirector: MeteredRedirector,
        mark_stale: Callable[[], None],
        spans: SpanExporter,
        writers: Sequence[OnPublished] = (),
    ) -> None:
        self.instance = instance
        self.metrics = metrics
        self.redirector = redirector
        self.mark_stale = mark_stale
        self.spans = spans
        self.groups = GroupPublisher(producer, instance.begin_group, self.pack, self.drop, writers)
        self.took_labels_at = 0.0

    def wake(self, seconds: float) -> None:
        """Publish the next group after these seconds."""
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self.groups.notify)
        else:
            self.groups.notify()

    def took_labels(self) -> None:
        """Note that labels have just been taken."""
        self.took_labels_at = monotonic()

    def pack(self, group: Group[ConsumerRecord]) -> Steps:
        """Turn a group into records, and count them when they are published."""
        records = self.instance.publication(group, is_flushing=self.groups.is_flushing)

        def published(_offsets: Offsets, seconds: float) -> None:
            self._count(records, seconds)
            self.spans.export(records.spans)
            self.instance.published()

        return Steps(records.changelog, published, records.before, records.outputs)

    def _count(self, records: Records[ConsumerRecord], seconds: float) -> None:
        """Count in the metrics what was published."""
        group = records.group
        self.redirector.count(group.taken)
        self.redirector.count(group)
        self.metrics.took("worker", group.labels, seconds)
        self.metrics.took("task", group.votes, seconds)
        for outcome, labels in group.taken.outcomes.items():
            if labels:
                self.metrics.labels.labels(outcome).inc(labels)
        self.metrics.votes.inc(group.votes)
        self.metrics.fenced_votes.inc(group.fenced_votes)
        self.metrics.posteriors.inc(records.posteriors)
        self.metrics.dated(group.timestamps)

    def drop(self, outbox: Outbox) -> None:
        """Handle records that were not published because Kafka removed this instance."""
        dropped = self.instance.dropped(outbox)
        self.metrics.withheld.labels("posteriors").inc(dropped.posteriors)
        self.metrics.withheld.labels("workers").inc(dropped.workers)
        if dropped.is_stale:
            self.mark_stale()
