"""The stages joined as the agents join them: records in, records out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd
from sbic.instance.estimates import EstimateRecords, Exchange
from sbic.instance.judge import Ends, Judge, Restored
from sbic.instance.taken import Taken
from sbic.instance.tasks import TaskStage
from sbic.instance.workers import WorkerStage
from sbic.wire.bad import BadRecord
from sbic.wire.changelogs import encode_facts
from sbic.wire.tasks import task_parser
from sbic.wire.votes import NOBODY
from tests.stages.simulated.log import CHANGELOGS, Log, Record, Write
from tests.stages.simulated.project import Project


class Group:
    """What is published together."""

    def __init__(self) -> None:
        self.taken: Taken[Record] = Taken()
        self.evidence: list[Write] = []
        self.tells_all = False


@dataclass
class Publication:
    """A group, ready to be published: first the changelog, then the outputs.

    `upto` has the positions in the inputs that are committed afterwards.
    """

    changelog: list[Write]
    outputs: list[Write]
    upto: dict[tuple[str, int], int] = field(default_factory=dict)


class Processor:
    """An instance between two rebalances: it processes the partitions that it owns."""

    def __init__(self, log: Log, project: Project = Project()) -> None:  # noqa: B008  # frozen
        self.log = log
        engine = Engine(
            project.algorithm,
            classes=len(project.classes),
            prior=project.prior,
            tolerance=project.tolerance,
        )
        self.crowd = Crowd(engine, project.classes, log.partitions)
        self.ends = Ends(log.partitions)
        judge = Judge(self.crowd, self.ends)
        self.workers = WorkerStage(self.crowd, judge, project.repeats)
        self.tasks = TaskStage(self.crowd, judge, project.rules)
        self.rejected: list[tuple[str, int, BadRecord]] = []  # topic, partition and why
        self.exchange = Exchange(self.tasks)
        self.parse_task = task_parser(project.classes)
        self.is_member = True  # of the group; only members may commit
        self.missed = False  # whether it was out of the group
        self.is_fenced = project.is_fenced
        self.is_void = False  # its state has something that was not published
        self.withheld: set[str] = set()  # tasks whose posterior was not published
        self.group = Group()
        self.owed: Publication | None = None
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

    def read(self, topic: str, partition: int, most: int | None = None) -> list[Record]:
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
            self.workers.take({partition: records}, self.group.taken)

    def count_votes(self, partition: int, most: int | None = None) -> None:
        """Count the next votes of a partition."""
        values = [record.value for record in self.read("votes", partition, most)]
        sure = False
        while values:
            counted = self.tasks.count(partition, values, sure=sure)
            self.group.evidence += [
                Write("evidence", partition, values[new]) for new in counted.new
            ]
            self._reject("votes", partition, counted.outcome)
            values = values[counted.outcome.records :]
            self.ask()
            sure = True

    def ask(self) -> None:
        """Look up the current ends of the topics that users write to."""
        self.ends.labels[:] = list(map(len, self.log["labels"]))
        self.ends.tasks[:] = list(map(len, self.log["tasks"]))

    def _reject(self, topic: str, partition: int, outcome: Restored) -> None:
        self.rejected += [(topic, partition, why) for why in outcome.rejected.values()]

    def heed(self, partition: int, most: int | None = None) -> None:
        """Apply the next descriptions of a partition."""
        for record in self.read("tasks", partition, most):
            try:
                description = self.parse_task(record.key, record.value)
            except BadRecord as bad:
                self.rejected.append(("tasks", partition, bad))
                continue
            self.tasks.describe(partition, description, record.offset, record.timestamp)

    def hear(self, partition: int, most: int | None = None) -> None:
        """Apply the next estimates of a partition."""
        records = self.log["estimates"][partition][self.heard[partition] :][:most]
        self.heard[partition] += len(records)
        for record in records:
            bad = self.exchange.receive(partition, record.value)
            if bad is not None:
                self.rejected.append(("estimates", partition, bad))
        if records:
            self.check_budget()

    def hear_all(self) -> None:
        """Apply all estimates of all partitions."""
        for partition in range(self.log.partitions):
            self.hear(partition)

    def refresh(self, labels: int = 1_000_000) -> bool:
        """Refresh due tasks with about this many labels; False once none is due."""
        return self.crowd.engine.refresh_due(labels)

    # Output.

    def pack(self) -> Publication:
        """Pack the group as the publisher does."""
        group, self.group = self.group, Group()
        publication = Publication([], [], dict(self.positions))
        taken = group.taken
        for partition, values in taken.records():
            publication.changelog += [Write("answers", partition, value) for value in values]
        for source, home, value, offsets in taken.votes:
            if home in self.tasks.partitions:
                self.tasks.count_own(home, source, offsets)
                publication.outputs.append(Write("evidence", home, value))
            else:
                publication.outputs += votes_in([(home, value)])
        publication.changelog += group.evidence
        tasks = self.crowd.moved() if self.tasks.is_restored else np.empty(0, np.int64)
        workers = self.crowd.engine.moved_workers()
        self.tasks.apply_rules(tasks)
        for partition, facts in self.tasks.facts():
            publication.changelog.append(Write("evidence", partition, encode_facts(facts)))
        homes = self.crowd.task.home[tasks].tolist()
        posteriors = zip(homes, *self.tasks.posteriors(tasks), strict=True)
        for partition, key, value in posteriors:
            publication.outputs.append(Write("posteriors", partition, value, key))
        if group.tells_all:
            publication.outputs += estimates_in(self.exchange.all_estimates())
        publication.outputs += estimates_in(self.exchange.estimates_of(tasks, workers))
        if not publication.changelog:
            publication.changelog, publication.outputs = publication.outputs, publication.changelog
        return publication

    def publish(self, goes_out: Callable[[Write], bool] = lambda write: True) -> None:
        """Publish the changelog of this group with the outputs of the one before.

        Only the writes that `goes_out` accepts reach the log: this simulates a crash.
        """
        publication, owed = self.pack(), self.owed
        writes = (owed.outputs if owed else []) + publication.changelog
        if self.is_fenced and not self.is_member:
            self.owed = None
            for write in writes:
                if write.topic == "posteriors":
                    self.withheld.add((write.key or b"").decode())
                elif write.topic != "estimates":
                    self.is_void = True
            return
        offsets = {
            write[:2]: self.log.write(write) for write in writes if self._may(write, goes_out)
        }
        for (topic, partition), offset in offsets.items():
            if topic in CHANGELOGS and partition in self.restored[topic]:
                self._wrote(
                    topic, partition, offset, [w for w in writes if w[:2] == (topic, partition)]
                )
        if owed:
            self._finish(owed)
        self.owed = publication if publication.outputs else None
        if not publication.outputs:
            self._finish(publication)

    def _may(self, write: Write, goes_out: Callable[[Write], bool]) -> bool:
        # no instance recovers from posteriors
        return goes_out(write) and (self.is_member or write.topic != "posteriors")

    def _wrote(self, topic: str, partition: int, offset: int, writes: Sequence[Write]) -> None:
        """Follow the changelog as the table does: records that we appended are not read again."""
        known = self.restored[topic]
        if known[partition] == offset - len(writes) + 1:
            known[partition] = offset + 1
        else:
            self.diverged[topic].add(partition)

    def _finish(self, publication: Publication) -> None:
        self.done.update(publication.upto)
        self.check_budget()

    def commit(self) -> None:
        """Commit what is published; Kafka refuses commits of instances outside the group."""
        if self.is_member:
            self.log.committed.update(self.done)
        self.done = {}

    def flush(self) -> None:
        """Publish everything that is in flight."""
        self.publish()
        while self.owed:
            self.publish()

    def check_budget(self) -> None:
        """Apply the budget to all tasks when it is reached, as the publisher does."""
        if self.tasks.check_budget():
            self.apply_rules_to(self.partitions)

    def apply_rules_to(self, partitions: Iterable[int]) -> None:
        """Apply the stop rules to all tasks of these partitions, as the publisher does."""
        for partition in partitions:
            self.crowd.touched.add(self.tasks.apply_rules_to_all(partition))


def votes_in(votes: Iterable[tuple[int, bytes]]) -> list[Write]:
    """Records of the votes topic; skips have no vote."""
    return [Write("votes", home, value) for home, value in votes if home != NOBODY]


def estimates_in(told: EstimateRecords) -> list[Write]:
    """Records of the estimates topic."""
    return [
        Write("estimates", partition, value)
        for partition, values in told.items()
        for value in values
    ]
