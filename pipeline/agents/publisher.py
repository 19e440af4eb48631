"""Publishes the results that the worker agent and the task agent get from one engine.

A group is published in steps. First the changelogs, from which the next owner recovers: the answers
of workers, and the votes of other instances as the evidence of tasks. Then what follows from them,
together with the changelogs of the next group: own votes, as evidence or to the owners of their
tasks, posteriors, workers and estimates. So a posterior never counts a label that a crash could
undo.

After a crash between the two steps, the next owner publishes the last votes again, and the
posteriors of the tasks of the last seconds: fences drop what was counted. Bad and forwarded labels
are published before the answers, which only say that they were taken: a crash may publish them
twice, but loses none.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic

import numpy as np

from pipeline.agents.estimate_updates import EstimateUpdates
from pipeline.agents.group import Group
from pipeline.agents.redirector import Redirector
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.agents.telemetry.traces import Span, SpanExporter, Traces
from pipeline.agents.worker_updates import WorkerUpdates
from pipeline.batched.group_publisher import GroupPublisher, Publication, Writer
from pipeline.batched.producer import BatchProducer, Offsets, Outbox, Row
from pipeline.inference.labels import Ints
from pipeline.records.facts import encode_facts
from pipeline.records.votes import NOBODY
from pipeline.stages.changes import Changes
from pipeline.stages.exchange import EstimateRecords, Exchange
from pipeline.stages.rows import by_home
from pipeline.stages.task_stage import NO_TASKS, TaskStage
from pipeline.topics import Topics

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
