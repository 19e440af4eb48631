"""Publishes what the worker agent and the task agent made of labels, votes and descriptions.

Both work on one engine, so their results go out together. A group is published in steps. First
what the next owner recovers from: the answers of workers and the evidence of tasks. Then what
follows from it: votes, posteriors and what the other instances are told, together with the first
step of the next group. So a posterior never counts a label that a crash could undo.

After a crash between the two, the next owner sends the last votes again, and the posteriors of
the tasks of the last seconds: fences drop what was counted. Of labels that were bad or forwarded
the answers say nothing but that they were taken, so they go out ahead: a crash may send them twice,
but loses none.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import monotonic, thread_time

import numpy as np
from aiokafka import ConsumerRecord

from pipeline.agents.redirector import Redirector
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.agents.telemetry.traces import Span, SpanExporter, Traces
from pipeline.batched.group_publisher import GroupPublisher, Publication
from pipeline.batched.producer import NO_HEADERS, BatchProducer, Offsets, Outbox, Row
from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.records.facts import encode_facts
from pipeline.records.votes import NOBODY
from pipeline.stages.changes import Changes
from pipeline.stages.exchange import Exchange, Told
from pipeline.stages.rows import by_home
from pipeline.stages.task_stage import NO_TASKS, TaskStage
from pipeline.stages.worker_records import encode_workers
from pipeline.stages.worker_stage import Forwarded, Taken
from pipeline.topics import Topics

RECORDS_AT_ONCE = 8_000  # labels and votes in a group
TASKS_AT_ONCE = 8_000
SECONDS_BETWEEN_WORKERS = 1.0
SECONDS_BETWEEN_ESTIMATES = 0.1
SHARE = 0.02  # of the time, for each of the two; what changes more than once meanwhile goes once
MOST_SECONDS_BETWEEN = 10.0


class Group:
    """What several partitions came to, to be published together."""

    def __init__(self) -> None:
        self.taken: defaultdict[int, Taken[ConsumerRecord]] = defaultdict(Taken)  # by partition
        self.evidence: list[tuple[int, bytes]] = []  # votes that were counted, by partition
        self.tasks: set[int] = set()  # to publish, whether they moved or not
        self.workers: set[int] = set()
        self.rejected: list[tuple[ConsumerRecord, BadRecord]] = []
        self.forwarded: list[Forwarded[ConsumerRecord]] = []  # descriptions
        self.told: list[Told] = []  # for the estimates topic
        self.timestamps: list[Ints] = []  # of labels that posteriors will count
        self.tells_all = False  # the other instances are told of all tasks and workers
        self.labels = 0
        self.votes = 0
        self.fenced_votes = 0
        self.records = 0
        self.is_full = False

    def took(self, labels: int = 0, votes: int = 0) -> None:
        """So many labels and votes, or one record of another kind, are in it now."""
        self.labels += labels
        self.votes += votes
        self.records += labels + votes or 1
        self.is_full = self.records >= RECORDS_AT_ONCE


class Publisher:
    """One group publisher for all that comes from the engine."""

    def __init__(
        self,
        stage: TaskStage,
        exchange: Exchange,
        topics: Topics,
        producer: BatchProducer,
        metrics: Metrics,
        redirector: Redirector,
        make_void: Callable[[], None],
        spans: SpanExporter,
    ) -> None:
        self.stage = stage
        self.crowd = stage.crowd
        self.exchange = exchange
        self.topics = topics
        self.metrics = metrics
        self.redirector = redirector
        self.make_void = make_void
        self.traces = Traces(self.crowd)
        self.spans = spans
        self.groups = GroupPublisher(producer, Group, self.pack, self.drop)
        self.changed = Changes()  # workers to publish
        self.workers_due = 0.0
        self.untold_tasks = Changes()
        self.untold_workers = Changes()
        self.estimates_due = 0.0
        self.took_labels_at = 0.0

    def pack(self, group: Group) -> Publication:
        """Dead letters and what is forwarded; answers and evidence; then what follows from them."""
        before, changelog, outputs = Outbox(), Outbox(), Outbox()
        for partition, taken in group.taken.items():
            if taken.labels:
                self._add_taken(partition, taken, before, changelog, outputs)
        for record, why in group.rejected:
            self.redirector.reject(before, record, why)
        for record, task, home in group.forwarded:
            self.redirector.forward(before, record, task, home)
        for partition, value in group.evidence:
            changelog.add(self.topics.evidence.name, partition, (None, value, None, NO_HEADERS))
        spans: list[Span] = []
        for home in list(self.traces.away):
            spans += self.traces.mark_votes(home, outputs.get((self.topics.votes.name, home), []))
        tasks = self._tasks(group)
        workers = self._workers(group)
        self.stage.apply_rules(tasks)
        for partition, facts in self.stage.facts():
            value = encode_facts(facts)
            changelog.add(self.topics.evidence.name, partition, (None, value, None, NO_HEADERS))
        for partition, places in by_home(self.crowd.task.home[tasks]):
            rows: list[Row] = [
                (key, value, None, NO_HEADERS)
                for key, value in self.stage.posteriors(tasks[places])
            ]
            spans += self.traces.mark_posteriors(tasks[places], rows)
            outputs.add(self.topics.posteriors.name, partition, *rows)
        if group.tells_all:
            self._add_estimates(outputs, self.exchange.tell_all())
        self._tell(outputs, tasks, workers)
        for told in group.told:
            self._add_estimates(outputs, told)
        self._add_workers(outputs)

        def published(_offsets: Offsets, seconds: float) -> None:
            self.metrics.took("worker", group.labels, seconds)
            self.metrics.took("task", group.votes, seconds)
            for taken in group.taken.values():
                for outcome, labels in taken.outcomes.items():
                    self.metrics.labels.labels(outcome).inc(labels)
            self.metrics.votes.inc(group.votes)
            self.metrics.fenced_votes.inc(group.fenced_votes)
            self.metrics.posteriors.inc(len(tasks))
            self.metrics.dated(group.timestamps)
            self.spans.export(spans)
            self.check_budget()

        if not changelog:
            changelog, outputs = outputs, changelog
        return Publication(changelog, published, before, outputs)

    def _add_taken(
        self,
        partition: int,
        taken: Taken[ConsumerRecord],
        before: Outbox,
        changelog: Outbox,
        outputs: Outbox,
    ) -> None:
        for record, why in taken.rejected:
            self.redirector.reject(before, record, why)
        for record, worker, home in taken.forwarded:
            self.redirector.forward(before, record, worker, home)
        rows = [(None, value, None, NO_HEADERS) for value in taken.records()]
        changelog.add(self.topics.answers.name, partition, *rows)
        self.add_votes(outputs, taken.votes)

    def add_votes(self, outbox: Outbox, votes: Iterable[tuple[int, bytes]]) -> None:
        """Add votes for partitions of tasks."""
        for home, value in votes:
            if home != NOBODY:
                outbox.add(self.topics.votes.name, home, (None, value, None, NO_HEADERS))

    def _add_estimates(self, outbox: Outbox, told: Told) -> None:
        for partition, values in told.items():
            rows = [(None, value, None, NO_HEADERS) for value in values]
            outbox.add(self.topics.estimates.name, partition, *rows)

    def tell_anew(self) -> None:
        """Tell the other instances everything again."""
        self.groups.filling.tells_all = True
        self.groups.notify()

    def tell(self, told: Told) -> None:
        """Publish something in the estimates topic."""
        self.groups.filling.told.append(told)
        self.groups.notify()

    def drop(self, outbox: Outbox) -> None:
        """Take note of what was not published, since this instance has lost its place.

        The next owners count it again. Here it is counted, so all is void; but for estimates, which
        are told anew after every rebalance.
        """
        kinds = {self.topics.posteriors.name: "posteriors", self.topics.workers.name: "workers"}
        for (topic, _), rows in outbox.items():
            if topic in kinds:
                self.metrics.withheld.labels(kinds[topic]).inc(len(rows))
            if topic != self.topics.estimates.name:
                self.make_void()

    def _tell(self, outbox: Outbox, tasks: Ints, workers: Ints) -> None:
        """Tell the other instances what has moved, now and then."""
        if self.crowd.is_alone:
            self.untold_tasks.take()
            self.untold_workers.take()
            return
        self.untold_tasks.add(tasks)
        self.untold_workers.add(workers)
        if not (self.untold_tasks or self.untold_workers) or monotonic() < self.estimates_due:
            return
        begun = thread_time()
        moved, known = self.untold_tasks.take(), self.untold_workers.take()
        own = self.crowd.has_workers_of[self.crowd.worker.home[known]]
        self._add_estimates(
            outbox, self.exchange.tell(moved[self.crowd.is_own_task(moved)], known[own])
        )
        self.estimates_due = self._again(begun, SECONDS_BETWEEN_ESTIMATES)

    def _tasks(self, group: Group) -> Ints:
        """The own tasks that moved, or that are in the group; none amid a recovery."""
        if not self.stage.is_restored:
            self.crowd.touched.update(group.tasks)
            return NO_TASKS
        moved = self.crowd.moved(TASKS_AT_ONCE)
        if len(moved) == TASKS_AT_ONCE:
            self.groups.notify()  # there may be more
        if not group.tasks:
            return moved
        asked = np.array(sorted(group.tasks), np.int64)
        return np.union1d(moved, asked[self.crowd.is_own_task(asked)])

    def _workers(self, group: Group) -> Ints:
        """The workers that moved; those that gave labels are to be published too."""
        moved = self.crowd.engine.moved_workers() if self.stage.is_restored else NO_TASKS
        for taken in group.taken.values():
            for workers in taken.workers:
                self.changed.add(np.unique(workers))
        self.changed.add(moved)
        self.changed.add(list(group.workers))
        return moved

    def _add_workers(self, outbox: Outbox) -> None:
        """Add the workers that changed, now and then: they are in no hurry."""
        is_due = monotonic() >= self.workers_due or self.groups.in_a_hurry
        if not (self.changed and is_due and self.stage.is_restored):
            return
        begun = thread_time()
        changed = self.changed.take()
        changed = changed[self.crowd.has_workers_of[self.crowd.worker.home[changed]]]
        for partition, key, value in encode_workers(self.crowd, changed):
            outbox.add(self.topics.workers.name, partition, (key, value, None, NO_HEADERS))
        self.workers_due = self._again(begun, SECONDS_BETWEEN_WORKERS)

    def _again(self, begun: float, seconds: float) -> float:
        """When to publish again what was published just now, for what changes meanwhile."""
        wait = min(max(seconds, (thread_time() - begun) / SHARE), MOST_SECONDS_BETWEEN)
        asyncio.get_running_loop().call_later(wait, self.groups.notify)
        return monotonic() + wait

    def check_budget(self) -> None:
        """Close the open tasks of this instance when all instances together have their labels."""
        if self.stage.rules.budget is None:
            return
        spent = self.stage.rules.is_spent(self.crowd.labels)
        if spent is not self.stage.spent:
            self.stage.spent = spent
            self.apply_rules_to(self.stage.partitions)

    def apply_rules_to(self, partitions: Iterable[int]) -> None:
        """Close what the rules close, and publish it."""
        for partition in partitions:
            changed = self.stage.apply_rules_to_all(partition)
            if len(changed):
                self.groups.filling.tasks.update(changed.tolist())
                self.groups.notify()
