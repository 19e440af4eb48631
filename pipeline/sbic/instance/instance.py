"""One instance: the whole protocol, without Kafka.

Partition p of all topics belongs to one instance at a time. For its life with an instance:

1. *Assigned.* `open_workers` and `open_tasks` begin a partition with empty state.
2. *Restored.* `restore_answers` and `restore_evidence` apply the changelogs of its former owners,
   `restore_roster` what users say of workers.
3. *Ready.* `workers_ready`, then `last_votes` again, then `tasks_ready`: what a crash may have kept
   from its topic is published again, and fences of the readers drop what they have.
4. *Taken, counted, described, heard.* Labels, votes, descriptions of tasks and the estimates of
   other instances change the state; what follows from them is gathered in the group `filling`.
5. *Published.* `publication` turns a group into records, in three steps (see there). When all are
   acknowledged, `published` is called, and the offsets of the group's records are committed.
6. *Dropped.* If Kafka has removed this instance from the group meanwhile, `dropped` says what that
   means for its state.
7. *Revoked.* `close_workers` and `close_tasks` forget the partition.

Kafka and Faust drive this object in production, random schedules with crashes between any two
writes in the tests.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple

import numpy as np

from sbic.classes import SKIP
from sbic.engine.labels import Ints
from sbic.instance.crowd import Changes, Rows, by_home
from sbic.instance.estimates import EstimateRecords, Exchange
from sbic.instance.publication import (
    EstimateUpdates,
    Group,
    Outbox,
    Redirector,
    Span,
    TopicNames,
    Traces,
    WorkerUpdates,
    with_headers,
)
from sbic.instance.survey import enough_for
from sbic.instance.taken import Forwarded, R, Rejected
from sbic.instance.tasks import NEVER_ENOUGH, NO_TASKS, Counted, StopRules, TaskStage
from sbic.instance.workers import WorkerStage
from sbic.wire.bad import BadRecord
from sbic.wire.changelogs import encode_facts
from sbic.wire.columns import COLUMNS, Names
from sbic.wire.estimates import Findings
from sbic.wire.flat import FlatEncoder, flat_encoder
from sbic.wire.partitions import Row
from sbic.wire.seal import NOT_SEALED, Seal
from sbic.wire.tasks import task_parser
from sbic.wire.traces import traced_tasks
from sbic.wire.votes import NOBODY
from sbic.wire.workers import RosterPartition, parse_roster

TASKS_AT_ONCE = 8_000


class Publication(NamedTuple, Generic[R]):
    """A group as records: `before`, then the `changelog`, then the `outputs`.

    `outputs` may go out together with the `changelog` of the next publication.
    """

    before: Outbox
    changelog: Outbox
    outputs: Outbox
    group: Group[R]
    posteriors: int
    spans: list[Span]


class Dropped(NamedTuple):
    """What was not published: how many posteriors and workers, and whether the state is stale."""

    posteriors: int
    workers: int
    is_stale: bool


def _flat(row: Row, encode: FlatEncoder) -> Row:
    """Return a posterior as a flat record, with the same key and headers."""
    assert row.value is not None  # no posterior is withdrawn
    return row._replace(value=encode(row.value))


def _ignore(_seconds: float) -> None:
    """Do nothing."""


class Instance(Generic[R]):
    """The state of one instance, and the order in which everything happens to it.

    `wake` is called with seconds after which a publication is due that was held back, with 0 if
    there is more to publish now. Without `throttled` nothing is held back. If it `is_flat`, each
    posterior is published as a flat record, too. `forwarded` has the offsets, by topic and
    partition, before which misplaced tasks and entries of the roster were forwarded already.
    """

    def __init__(
        self,
        workers: WorkerStage,
        tasks: TaskStage,
        seal: Seal,
        topics: TopicNames = TopicNames(),  # noqa: B008  # immutable
        wake: Callable[[float], object] = _ignore,
        *,
        throttled: bool = True,
        is_flat: bool = False,
        forwarded: Mapping[tuple[str, int], int] = {},  # read only
    ) -> None:
        self.workers = workers
        self.tasks = tasks
        self.crowd = tasks.crowd
        self.exchange = Exchange(tasks)
        self.seal = seal
        self.topics = topics
        self.internal = {topics.answers, topics.votes, topics.evidence, topics.estimates}
        self.wake = wake
        self.redirector = Redirector(topics.dead_letters, self.crowd.partitions, seal)
        self.traces = Traces(self.crowd)
        self.worker_updates = WorkerUpdates(self.crowd, topics.workers, wake, throttled=throttled)
        self.estimate_updates = EstimateUpdates(
            self.exchange, topics.estimates, wake, throttled=throttled
        )
        self.withheld_tasks = Changes()  # to publish after the next recovery
        self.withheld_workers = Changes()
        self.flat = flat_encoder(self.crowd.classes) if is_flat else None
        self.parse_task = task_parser(self.crowd.classes)
        self.forwarded = forwarded
        self.filling: Group[R] = Group()

    def begin_group(self) -> Group[R]:
        """Begin the next group of results."""
        self.filling = Group()
        return self.filling

    # 1. Assigned, and 7. revoked.

    def open_workers(self, partition: int) -> None:
        """Begin a partition of workers with empty state."""
        self.workers.open(partition)
        self.crowd.roster.open(partition)

    def open_tasks(self, partition: int) -> None:
        """Begin a partition of tasks with empty state."""
        self.tasks.open(partition)

    def close_workers(self, partition: int) -> None:
        """Forget a partition of workers."""
        self.workers.close(partition)
        self.crowd.roster.close(partition)

    def close_tasks(self, partition: int) -> None:
        """Forget a partition of tasks."""
        self.exchange.release(partition)
        self.tasks.close(partition)
        self.exchange.receive_from_next_owner(partition)

    # 2. Restored.

    def restore_answers(self, partition: int, records: Sequence[R]) -> list[Rejected[R]]:
        """Apply records of the answers topic; return those that no instance has written."""
        genuine, forged = self.seal.sort(records, COLUMNS)
        self.workers.restore(partition, [record.value for record in genuine])
        return [Rejected(record, NOT_SEALED) for record in forged]

    def restore_evidence(self, partition: int, records: Sequence[R]) -> list[Rejected[R]]:
        """Apply records of the evidence topic; return those that no instance has written."""
        genuine, forged = self.seal.sort(records, COLUMNS)
        self.tasks.restore(partition, [(record.timestamp, record.value) for record in genuine])
        return [Rejected(record, NOT_SEALED) for record in forged]

    def read_roster(self, record: R, read: RosterPartition) -> None:
        """Read a record of the roster; `enlist` deals with bad and misplaced ones."""
        try:
            worker, entry = parse_roster(record.key, record.value)
        except BadRecord:
            return
        if self.crowd.home_of(worker) == record.partition:
            read.apply(record.offset, worker, entry)

    def restore_roster(self, read: Mapping[int, RosterPartition]) -> None:
        """Replace the roster of partitions by what was read of it, before any request is answered.

        The workers in it are published again: a crash may have prevented it.
        """
        self.crowd.roster.restore(read)
        for partition, roster in read.items():
            self.crowd.say_own(partition, roster.entries, replaces=True)
            self._publish_listed(partition, roster.entries)

    def _publish_listed(self, partition: int, workers: Iterable[str]) -> None:
        """Publish these workers of a partition, as far as they have given labels."""
        known = map(self.crowd.workers.known, workers)
        numbers = [number for number in known if number is not None]
        own = [number for number in numbers if self.crowd.worker.home[number] == partition]
        if own:
            self.publish_workers(np.array(own, np.int64))

    # 3. Ready.

    def refresh(self, labels: int) -> bool:
        """Refresh due tasks with about this many labels; return whether more are due."""
        return self.crowd.engine.refresh_due(labels)

    def workers_ready(self, partitions: Iterable[int]) -> None:
        """Complete the restoration of partitions of workers, once `refresh` has nothing to do."""
        for partition in partitions:
            self.workers.ready(partition)

    def last_votes(self, partition: int) -> Outbox:
        """Return the last votes of a partition, to be published again before any label is taken."""
        again = Outbox()
        for answers in self.workers.partitions[partition].last_answers:
            for home, value in answers.votes:
                self._add_votes(again, home, value)
        self._seal(again)
        return again

    def last_votes_published(self, partitions: Iterable[int]) -> None:
        """Note that they are acknowledged; workers of the last seconds are published again, too."""
        names: list[Names] = []
        for partition in partitions:
            state = self.workers.partitions[partition]
            state.last.clear()
            names.append(state.restored.take())
        recent = self.crowd.number_workers(Names.joined(names))
        self.publish_workers(np.unique(recent))
        self.publish_workers(self.withheld_workers.take())

    def tasks_ready(self, partitions: Iterable[int], generation: int) -> None:
        """Complete the restoration of partitions of tasks, and publish all own estimates.

        Also publishes posteriors that a crash may have kept from their topic, and those of tasks
        that a stop rule closes which the last owner did not have.
        """
        self.tasks.ready(partitions, generation)
        self.publish_tasks(self.withheld_tasks.take())
        self.tasks.check_budget()
        self.apply_rules_to(partitions)
        self.exchange.update_sums()
        self.exchange.update_pairs()
        self.exchange.apply_early_shares()
        self.publish_all_estimates()

    # 4. Taken, counted, described, heard.

    def take(self, parts: Mapping[int, Sequence[R]]) -> Rows | None:
        """Take labels, by partition; return those that count."""
        group = self.filling
        rows = self.workers.take(parts, group.taken)
        group.took_labels(sum(map(len, parts.values())))
        if rows is not None:
            is_counted = self.crowd.is_own_task(rows.tasks) & (rows.answers != SKIP)
            group.timestamps.append(rows.timestamps[is_counted])
            if self.crowd.engine.tasks_moved > TASKS_AT_ONCE:
                # new labels first: one of these tasks may be far back among those that moved
                self.crowd.touched.add(rows.tasks[is_counted])
            self.traces.took(parts, rows)
        return rows

    def count(self, partition: int, records: Sequence[R], *, come_again: bool = False) -> Counted:
        """Count records of votes; those that `come_again` become dead letters only then."""
        group = self.filling
        genuine, forged = self.seal.sort(records, COLUMNS)
        counted = self.tasks.count(partition, [record.value for record in genuine])
        group.took_votes(partition, genuine, counted)
        if not come_again:
            for record in forged:
                group.reject(record, NOT_SEALED)
        for place in counted.new:
            self._follow_traces(genuine[place])
        return counted

    def _follow_traces(self, record: R) -> None:
        """Let the posteriors carry the traces that came with votes."""
        for task, traceparent in traced_tasks(record.headers) if record.headers else ():
            number = self.crowd.tasks.known(task)
            if number is not None and self.crowd.is_own_task([number])[0]:
                self.traces.follow(number, traceparent)

    def describe(self, record: R) -> None:
        """Apply a description of a task, or forward it to the partition of the task."""
        group = self.filling
        group.took_description()
        try:
            description = self.parse_task(record.key, record.value)
        except BadRecord as bad:
            group.reject(record, bad)
            return
        task = description["task"]
        home = self.crowd.home_of(task)
        if home != record.partition:
            self._forward(record, task, home)
            return
        self.tasks.describe(home, description, record.offset, record.timestamp)

    def enlist(self, record: R) -> None:
        """Apply a record of the roster, or forward it to the partition of the worker."""
        group = self.filling
        group.took_description()
        try:
            worker, entry = parse_roster(record.key, record.value)
        except BadRecord as bad:
            group.reject(record, bad)
            return
        home = self.crowd.home_of(worker)
        if home != record.partition:
            self._forward(record, worker, home)
        elif self.crowd.roster.apply(home, record.offset, worker, entry):
            self.crowd.say_own(home, [worker])
            self._publish_listed(home, [worker])

    def _forward(self, record: R, key: str, home: int) -> None:
        """Forward a misplaced record, unless that was done before a recount."""
        if record.offset >= self.forwarded.get((record.topic, record.partition), 0):
            self.filling.forwarded.append(Forwarded(record, key, home))

    def hear(self, partition: int, record: R) -> BadRecord | None:
        """Apply a record of estimates.

        Returns the problem if no instance has written it. Only the owner of the partition does: one
        dead letter is enough.
        """
        if self.seal.is_on(record, COLUMNS):
            self.exchange.receive(partition, record.value)
            return None
        return NOT_SEALED if self.crowd.has_tasks_of[partition] else None

    # 5. Published.

    def publication(self, group: Group[R], *, is_flushing: bool = False) -> Publication[R]:
        """Turn a group into records, to be published in this order.

        1. Bad and forwarded records. The answers say only that they were taken: a crash may
           publish them twice, but loses none.
        2. The changelogs, from which the next owner recovers: the answers of workers; the votes of
           other instances, and facts, as the evidence of tasks.
        3. What follows from them: own votes, as evidence or to the owners of their tasks;
           posteriors, estimates and workers. So a posterior never counts a label that a crash
           could undo.

        After a crash between 2 and 3, the next owner publishes the last votes again, and the
        posteriors of the tasks of the last seconds: fences drop what was counted.
        """
        before, changelog, outputs = Outbox(), Outbox(), Outbox()
        self.redirector.add(before, group.taken)
        self.redirector.add(before, group)
        for partition, values in group.taken.records():
            changelog.add(self.topics.answers, partition, *(Row(None, value) for value in values))
        self._add_own_votes(outputs, group)
        for partition, value in group.evidence:
            changelog.add(self.topics.evidence, partition, Row(None, value))
        spans: list[Span] = []
        for home in list(self.traces.away):
            spans += self.traces.mark_votes(home, outputs.get((self.topics.votes, home), []))
        tasks, workers = self._moved_tasks(), self._moved_workers(group)
        self.tasks.apply_rules(tasks)
        for partition, facts in self.tasks.facts():
            changelog.add(self.topics.evidence, partition, Row(None, encode_facts(facts)))
        spans += self._add_posteriors(outputs, tasks)
        self._add_estimates(outputs, group, tasks, workers)
        if self.tasks.is_restored:
            self.worker_updates.add_to(outputs, is_flushing=is_flushing)
        self._seal(changelog)
        self._seal(outputs)
        if not changelog:
            changelog, outputs = outputs, changelog
        return Publication(before, changelog, outputs, group, len(tasks), spans)

    def _seal(self, outbox: Outbox) -> None:
        """Seal the records that only instances read."""
        for (topic, partition), rows in outbox.items():
            if topic in self.internal:
                outbox[topic, partition] = [
                    with_headers(row, self.seal.header(topic, partition, row.value, COLUMNS))
                    for row in rows
                ]

    def _add_own_votes(self, outputs: Outbox, group: Group[R]) -> None:
        """Add the votes of labels that were taken; those on own tasks are counted here."""
        for source, home, value, offsets in group.taken.votes:
            if home != NOBODY and self.crowd.has_tasks_of[home]:
                self.tasks.count_own(home, source, offsets)
                group.votes += len(offsets)
                outputs.add(self.topics.evidence, home, Row(None, value))
            else:
                self._add_votes(outputs, home, value)

    def _add_votes(self, outbox: Outbox, home: int, value: bytes) -> None:
        """Add a record of votes, for a partition of tasks or for nobody."""
        if home != NOBODY:
            outbox.add(self.topics.votes, home, Row(None, value))

    def _moved_tasks(self) -> Ints:
        """Return the own tasks to publish; none during a recovery.

        Of many tasks only some: the others are in the next groups, so that heartbeats go on.
        """
        if not self.tasks.is_restored:
            return NO_TASKS
        tasks = self.crowd.moved(TASKS_AT_ONCE)
        if self.crowd.has_moved:
            self.wake(0)
        return tasks

    def _moved_workers(self, group: Group[R]) -> Ints:
        """Return the workers that moved; they and those who gave labels are to be published."""
        moved = self.crowd.engine.moved_workers() if self.tasks.is_restored else NO_TASKS
        for workers in group.taken.workers:
            self.worker_updates.add(np.unique(workers))
        self.worker_updates.add(moved)
        self.worker_updates.add(list(group.workers))
        return moved

    def _add_posteriors(self, outbox: Outbox, tasks: Ints) -> list[Span]:
        """Add the posteriors of these tasks; return the spans of traced labels that they count."""
        rows = list(map(Row, *self.tasks.posteriors(tasks)))
        spans = self.traces.mark_posteriors(tasks, rows)
        for partition, places in by_home(self.crowd.task.home[tasks]):
            some = [rows[place] for place in places]
            outbox.add(self.topics.posteriors, partition, *some)
            if self.flat is not None:
                outbox.add(self.topics.flat, partition, *(_flat(row, self.flat) for row in some))
        return spans

    def _add_estimates(self, outbox: Outbox, group: Group[R], tasks: Ints, workers: Ints) -> None:
        if group.has_all_estimates:
            self.estimate_updates.write_all(outbox)
        self.estimate_updates.add_to(outbox, tasks, workers)
        for estimates in group.estimates:
            self.estimate_updates.write(outbox, estimates)

    def published(self) -> None:
        """Note that a publication is acknowledged: its labels may have spent the budget."""
        self.check_budget()

    # 6. Dropped.

    def dropped(self, outbox: Outbox) -> Dropped:
        """Handle records that were not published because Kafka removed this instance.

        The next owners count the same labels again. Here they are counted already, so the state is
        stale; unless there are only posteriors and workers, of which the own ones are published
        after the recovery, and estimates, which are all published again after every rebalance.
        """
        posteriors = workers = 0
        is_stale = False
        for (topic, _), rows in outbox.items():
            keys = sorted({(row.key or b"").decode() for row in rows})
            if topic in (self.topics.posteriors, self.topics.flat):
                posteriors += len(rows) if topic == self.topics.posteriors else 0
                self.withheld_tasks.add(self.crowd.number_tasks(keys))
            elif topic == self.topics.workers:
                workers += len(rows)
                self.withheld_workers.add(self.crowd.number_workers(keys))
            elif topic != self.topics.estimates:
                is_stale = True
        return Dropped(posteriors, workers, is_stale)

    # What to publish, apart from what follows from records.

    def publish_all_estimates(self) -> None:
        """Publish the estimates of all own tasks and workers."""
        self.filling.has_all_estimates = True
        self.wake(0)

    def publish_estimates(self, estimates: EstimateRecords) -> None:
        """Publish records in the estimates topic."""
        self.filling.estimates.append(estimates)
        self.wake(0)

    def publish_tasks(self, tasks: Ints) -> None:
        """Publish the posteriors of these tasks, whether they moved or not."""
        self.crowd.touched.add(tasks)
        self.wake(0)

    def publish_workers(self, workers: Ints) -> None:
        """Publish these workers when the next publication of workers is due."""
        self.filling.workers.update(workers.tolist())
        self.wake(0)

    def check_budget(self) -> None:
        """Close the open tasks of this instance once all instances have spent the budget."""
        if self.tasks.check_budget():
            self.apply_rules_to(self.tasks.partitions)

    def review(self, tasks: Ints) -> None:
        """Apply the rules to some own tasks again, since what closes them depends on all tasks."""
        rules = self.tasks.rules
        if (rules.error is not None or rules.escalates) and self.tasks.is_restored:
            changed = self.tasks.apply_rules(tasks)
            if len(changed):
                self.publish_tasks(changed)

    def found(self, findings: Findings) -> None:
        """Publish what a survey of the own tasks has found, and learn what it means with all."""
        self.exchange.own_findings = findings
        if report := self.exchange.report():
            self.publish_estimates(report)
        together, error = self.exchange.all_findings(), self.tasks.rules.error
        if together is not None and error is not None:
            self.tasks.enough = enough_for(error, together.candidates)

    def follow(self, rules: StopRules) -> None:
        """Close tasks by other rules from now on; what a rule has closed stays closed."""
        if rules.error != self.tasks.rules.error:
            self.tasks.enough = NEVER_ENOUGH  # until the next survey
        self.tasks.rules = rules
        self.tasks.check_budget()
        if self.tasks.is_restored:  # otherwise `tasks_ready` applies them
            self.apply_rules_to(self.tasks.partitions)

    def apply_rules_to(self, partitions: Iterable[int]) -> None:
        """Close the tasks that the rules close, and publish them."""
        for partition in partitions:
            changed = self.tasks.apply_rules_to_all(partition)
            if len(changed):
                self.publish_tasks(changed)
