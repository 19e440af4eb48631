"""An instance on simulated topics: what Kafka and Faust do between the steps of the object."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd
from sbic.instance.instance import Instance
from sbic.instance.publication import Outbox
from sbic.instance.survey import Survey, Surveyor
from sbic.instance.tasks import TaskStage
from sbic.instance.workers import WorkerStage
from sbic.wire.estimates import Findings
from sbic.wire.workers import RosterPartition
from tests.stages.simulated.log import CHANGELOGS, INPUTS, Log, SimulatedRecord, Write
from tests.stages.simulated.project import SEAL, SimulatedProject

NOT_RECOVERED_FROM = "posteriors", "flat", "workers"


@dataclass
class Pending:
    """Outputs that go out with the next changelog, and what is committed after them."""

    outputs: Outbox
    upto: dict[tuple[str, int], int] = field(default_factory=dict)


class SimulatedMember:
    """One instance, which owns the partitions that `assign` gave it."""

    def __init__(self, log: Log, project: SimulatedProject = SimulatedProject()) -> None:  # noqa: B008  # frozen
        self.log = log
        engine = Engine(
            project.algorithm,
            classes=len(project.classes),
            prior=project.prior,
            tolerance=project.tolerance,
            common=project.common,
            is_ordered=project.classes.is_ordered,
        )
        self.crowd = Crowd(engine, project.classes, log.partitions)
        self.workers = WorkerStage(self.crowd, SEAL, project.repeats)
        self.tasks = TaskStage(self.crowd, project.rules)
        self.instance: Instance[SimulatedRecord] = Instance(
            self.workers, self.tasks, SEAL, throttled=False, is_flat=project.is_flat
        )
        self.exchange = self.instance.exchange
        self.is_member = True  # of the group; only members may commit
        self.missed = False  # whether it was out of the group
        self.is_fenced = project.is_fenced
        self.is_stale = False  # its state has something that was not published
        self.pending: Pending | None = None
        self.positions: dict[tuple[str, int], int] = {}
        self.done: dict[tuple[str, int], int] = {}  # published, and yet to be committed
        self.restored: dict[str, dict[int, int]] = {name: {} for name in CHANGELOGS}
        self.diverged: dict[str, set[int]] = {name: set() for name in CHANGELOGS}
        self.heard = [len(records) for records in log["estimates"]]

    @property
    def partitions(self) -> list[int]:
        """The partitions that it owns, or had when it was stalled."""
        return sorted(self.tasks.partitions)

    # Input.

    def read(self, topic: str, partition: int, most: int | None = None) -> list[SimulatedRecord]:
        """The next records of an input."""
        place = topic, partition
        start = self.positions[place]
        records = self.log[topic][partition][start:][:most]
        self.positions[place] = start + len(records)
        return records

    def take_labels(self, partition: int, most: int | None = None) -> None:
        """Take the next labels of a partition."""
        records = self.read("labels", partition, most)
        if records:
            self.instance.take({partition: records})

    def count_votes(
        self, partition: int, most: int | None = None, *, come_again: bool = False
    ) -> None:
        """Count the next votes of a partition."""
        records = self.read("votes", partition, most)
        if records:
            self.instance.count(partition, records, come_again=come_again)

    def heed(self, partition: int, most: int | None = None) -> None:
        """Apply the next descriptions of a partition."""
        for record in self.read("tasks", partition, most):
            self.instance.describe(record)

    def enlist(self, partition: int, most: int | None = None) -> None:
        """Apply the next records of a partition of the roster."""
        for record in self.read("roster", partition, most):
            self.instance.enlist(record)

    def hear(self, partition: int, most: int | None = None) -> None:
        """Apply the next estimates of a partition."""
        records = self.log["estimates"][partition][self.heard[partition] :][:most]
        self.heard[partition] += len(records)
        for record in records:
            self.instance.hear(partition, record)
        if records:
            self.instance.check_budget()

    def hear_all(self) -> None:
        """Apply all estimates of all partitions."""
        for partition in range(self.log.partitions):
            self.hear(partition)

    def refresh(self, labels: int = 1_000_000) -> bool:
        """Refresh due tasks with about this many labels; False once none is due."""
        return self.instance.refresh(labels)

    def survey(self) -> Findings:
        """Survey the own tasks, as the app does in the background."""
        surveyor, found = Surveyor(self.tasks), Survey.empty(self.crowd.engine.classes)
        for tasks in surveyor.steps(found):
            self.instance.review(tasks)
        findings = found.findings(surveyor.dependence)
        if self.tasks.is_restored:
            self.instance.found(findings)
        return findings

    # Output.

    def publish(self, goes_out: Callable[[Write], bool] = lambda write: True) -> None:
        """Publish the changelog of this group with the outputs of the one before.

        Only the writes that `goes_out` accepts reach the log: this simulates a crash.
        """
        group, _ = self.instance.filling, self.instance.begin_group()
        publication, last = self.instance.publication(group), self.pending
        outbox, self.pending = Outbox(), None
        if last:
            outbox.add_all(last.outputs)
        outbox.add_all(publication.changelog)
        if self.is_fenced and not self.is_member:
            self.is_stale |= self.instance.dropped(outbox).is_stale
            return
        before = writes_in(publication.before)
        if len([self.log.write(write) for write in before if goes_out(write)]) < len(before):
            return  # it crashed before these were acknowledged
        self._write(outbox, goes_out)
        if last:
            self._finish(last)
        this = Pending(publication.outputs, dict(self.positions))
        if publication.outputs:
            self.pending = this
        else:
            self._finish(this)

    def _write(self, outbox: Outbox, goes_out: Callable[[Write], bool]) -> None:
        writes = writes_in(outbox)
        offsets = {
            (write.topic, write.partition): self.log.write(write)
            for write in writes
            if self._may(write, goes_out)
        }
        for (topic, partition), offset in offsets.items():
            if topic in CHANGELOGS and partition in self.restored[topic]:
                self._wrote(topic, partition, offset, len(outbox[topic, partition]))

    def _may(self, write: Write, goes_out: Callable[[Write], bool]) -> bool:
        return goes_out(write) and (self.is_member or write.topic not in NOT_RECOVERED_FROM)

    def _wrote(self, topic: str, partition: int, offset: int, writes: int) -> None:
        """Follow the changelog as the table does: records that we appended are not read again."""
        known = self.restored[topic]
        if known[partition] == offset - writes + 1:
            known[partition] = offset + 1
        else:
            self.diverged[topic].add(partition)

    def _finish(self, publication: Pending) -> None:
        self.done.update(publication.upto)
        self.instance.published()

    def commit(self) -> None:
        """Commit what is published; Kafka refuses commits of instances outside the group."""
        if self.is_member:
            self.log.committed.update(self.done)
        self.done = {}

    def flush(self) -> None:
        """Publish everything that is in flight."""
        self.publish()
        while self.pending:
            self.publish()

    # Rebalances and recovery, as the tables do them.

    def assign(self, partitions: set[int]) -> None:
        """Take an assignment as the tables do: drop what is revoked, open what is new."""
        missed, self.missed, self.is_member = self.missed, False, True
        if self.is_stale:
            self.is_stale = False
            for topic, known in self.restored.items():
                self.forget(topic, set(known))
        for topic, known in self.restored.items():
            self.forget(
                topic, (set(known) - partitions) | (self.diverged[topic] if missed else set())
            )
            for partition in partitions - set(known):
                known[partition] = 0
                self.open(topic, partition)
        self.done = {}
        self.positions = {
            (topic, partition): self.log.committed[topic, partition]
            for topic in INPUTS
            for partition in partitions
        }

    def forget(self, topic: str, partitions: set[int]) -> None:
        """Drop partitions of a table."""
        for partition in partitions:
            del self.restored[topic][partition]
            self.diverged[topic].discard(partition)
            if topic == "answers":
                self.instance.close_workers(partition)
            else:
                self.instance.close_tasks(partition)

    def open(self, topic: str, partition: int) -> None:
        """Open a partition of a table."""
        if topic == "answers":
            self.instance.open_workers(partition)
        else:
            self.instance.open_tasks(partition)

    def restore(self, topic: str, partition: int, most: int | None = None) -> None:
        """Restore the next records of a changelog, at the most `most`."""
        known = self.restored[topic]
        records = self.log[topic][partition][known[partition] :][:most]
        known[partition] += len(records)
        instance = self.instance
        apply = instance.restore_answers if topic == "answers" else instance.restore_evidence
        if records:
            apply(partition, records)

    def restore_all(self, topics: Iterable[str] = CHANGELOGS) -> None:
        """Restore the changelogs to their ends."""
        for topic in topics:
            for partition in self.partitions:
                self.restore(topic, partition)

    def workers_ready(self, take_over: Callable[[set[int]], None] = lambda _: None) -> None:
        """Get workers ready; the policy calls `take_over` in between."""
        while self.refresh():
            pass
        self.instance.workers_ready(self.partitions)
        self.read_roster()
        take_over(set(self.partitions))
        for partition in self.partitions:
            for write in writes_in(self.instance.last_votes(partition)):
                self.log.write(write)
        self.instance.last_votes_published(self.partitions)

    def read_roster(self) -> None:
        """Read the roster of the own partitions to its end."""
        found = {partition: RosterPartition() for partition in self.partitions}
        for partition, read in found.items():
            for record in self.log["roster"][partition]:
                self.instance.read_roster(record, read)
        self.instance.restore_roster(found)

    def tasks_ready(self, generation: int) -> None:
        """Get tasks ready, until all estimates are published."""
        self.instance.tasks_ready(self.partitions, generation)
        self.flush()

    def count_unread(self) -> None:
        """Count the votes that are not read yet; they are read again from where it is committed."""
        for partition in self.partitions:
            self.count_votes(partition, come_again=True)
            self.positions["votes", partition] = self.log.committed["votes", partition]
            self.publish()


def writes_in(outbox: Outbox) -> Sequence[Write]:
    """The records in the order in which they are written."""
    return [
        Write(topic, partition, row.value, row.key, tuple(row.headers))
        for (topic, partition), rows in outbox.items()
        for row in rows
    ]


# Several instances in one group.


class SimulatedCluster:
    """Instances of one group; partition p of all topics belongs to one of them."""

    def __init__(self, log: Log, project: SimulatedProject) -> None:
        self.log = log
        self.project = project
        self.members: list[SimulatedMember] = []
        self.stalled: list[SimulatedMember] = []
        self.generation = 0

    def owner(self, partition: int) -> SimulatedMember:
        """The instance that owns a partition."""
        return next(member for member in self.members if partition in member.partitions)

    def rebalance(self, members: Sequence[SimulatedMember], owners: Sequence[int]) -> None:
        """Make these the members; `owners` has the number of each partition's member.

        An instance that stays in the group publishes and commits everything first.
        """
        for member in members:
            member.missed = not member.is_member
            member.flush()
            member.commit()
        for instance in self.members:
            instance.is_member = instance in members
        self.members = list(members)
        self.generation += 1
        for number, member in enumerate(members):
            whose = {p for p, owner in enumerate(owners) if owner % len(members) == number}
            member.assign(whose)
        for number, member in enumerate(members):
            in_order = CHANGELOGS if owners[number % len(owners)] % 2 else CHANGELOGS[::-1]
            member.restore_all(in_order)
            member.workers_ready()
            member.tasks_ready(self.generation)
        for member in members:
            if member.partitions and member.exchange.missing:
                member.hear_all()
                assert not member.exchange.missing
            member.count_unread()

    def settle(self) -> None:
        """Let everything be delivered and come to rest."""
        size = -1
        while size != (size := sum(len(p) for topic in self.log.topics.values() for p in topic)):
            for member in self.members:
                for partition in member.partitions:
                    member.take_labels(partition)
                    member.heed(partition)
                    member.enlist(partition)
                    member.count_votes(partition)
                while member.refresh():
                    pass
                member.flush()
                member.hear_all()
                while member.refresh():
                    pass
                if member.crowd.engine.has_news:
                    member.flush()
