"""The stages joined as the agents join them, with lists in the place of topics."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from orjson import loads

from pipeline.classes import SIGNS, Classes
from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import AlgorithmName, Engine
from pipeline.inference.labels import Ints
from pipeline.partitioner import partition_of
from pipeline.records.bad import BadRecord
from pipeline.records.facts import encode_facts
from pipeline.records.labels import encode_label
from pipeline.records.origin import Header
from pipeline.records.tasks import Description, NamedDescription, encode_task, task_parser
from pipeline.records.votes import NOBODY
from pipeline.stages.crowd import Crowd
from pipeline.stages.exchange import Exchange, Told
from pipeline.stages.judge import Ends, Judge
from pipeline.stages.restored import Restored
from pipeline.stages.stop_rules import StopRules
from pipeline.stages.task_stage import NO_RULES, TaskStage
from pipeline.stages.worker_records import encode_workers
from pipeline.stages.worker_stage import Taken, WorkerStage

Triple = tuple[str, str, int | str | None]
PRIOR = Prior(alpha=2.0, beta=1.5, q=0.3)


@dataclass
class Record:
    offset: int
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    topic: str = "labels"


@dataclass(frozen=True)
class Project:
    """What all instances agree on.

    Unless they are fenced, those that were stalled write late what they had under way.
    """

    algorithm: AlgorithmName = "fast-sbic"
    classes: Classes = SIGNS
    repeats: Literal["first", "last"] = "first"
    rules: StopRules = NO_RULES
    tolerance: float = 1e-9
    prior: Prior = PRIOR
    is_fenced: bool = True


class Write(NamedTuple):
    """A record that is to be written."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None


CHANGELOGS = "answers", "evidence"
INPUTS = "labels", "votes", "tasks"
TOPICS = (*INPUTS, *CHANGELOGS, "estimates", "posteriors")

Topic = list[list[Record]]
"""Its records, by partition."""


class Log:
    """The topics, and how far the group has committed those that it reads."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.topics: dict[str, Topic] = {name: [[] for _ in range(partitions)] for name in TOPICS}
        self.committed: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.now = 0

    def __getitem__(self, topic: str) -> Topic:
        return self.topics[topic]

    def write(self, write: Write) -> int:
        """Append a record; its offset."""
        records = self[write.topic][write.partition]
        records.append(Record(len(records), self.now, write.value, write.key))
        return len(records) - 1

    def produce(self, task: str, worker: str, label: int | str | None) -> int:
        """Append a label; its partition."""
        partition = partition_of(worker.encode(), self.partitions)
        offset = len(self["labels"][partition])
        value = encode_label(task, worker, label)
        self["labels"][partition].append(Record(offset, offset, value, worker.encode()))
        return partition

    def describe(self, description: Description | NamedDescription) -> int:
        """Append a record to the tasks topic; its partition."""
        key = description["task"].encode()
        partition = partition_of(key, self.partitions)
        self.write(Write("tasks", partition, encode_task(description), key))
        return partition

    def posteriors(self) -> dict[str, dict[str, Any]]:
        """The last posterior of every task."""
        return {
            posterior["task"]: posterior
            for records in self["posteriors"]
            for posterior in (loads(record.value or b"") for record in records)
        }


class Group:
    """What is to be published together."""

    def __init__(self) -> None:
        self.taken: defaultdict[int, Taken[Record]] = defaultdict(Taken)
        self.evidence: list[Write] = []
        self.tasks: set[int] = set()
        self.tells_all = False


@dataclass
class Parcel:
    """A group, ready to be published in two steps; `upto` is what it has read of the inputs."""

    first: list[Write]
    then: list[Write]
    upto: dict[tuple[str, int], int] = field(default_factory=dict)


class Instance:
    """One instance, which owns the partitions that `assign` gave it."""

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
        self.is_member = True  # of the group; only then it may commit
        self.missed = False  # whether it was out of the group
        self.is_fenced = project.is_fenced
        self.is_void = False  # something that it counts was not published
        self.group = Group()
        self.owed: Parcel | None = None
        self.positions: dict[tuple[str, int], int] = {}
        self.done: dict[tuple[str, int], int] = {}  # published, and yet to be committed
        self.restored: dict[str, dict[int, int]] = {name: {} for name in CHANGELOGS}
        self.diverged: dict[str, set[int]] = {name: set() for name in CHANGELOGS}
        self.heard = [len(records) for records in log["estimates"]]

    @property
    def partitions(self) -> list[int]:
        """Those that it owns, or thinks that it does."""
        return sorted(self.tasks.partitions)

    # What comes in.

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
            self.workers.take(partition, records, self.group.taken[partition])

    def count_votes(self, partition: int, most: int | None = None) -> None:
        """Count the next votes of a partition."""
        values = [record.value for record in self.read("votes", partition, most)]
        sure = False
        while values:
            counted = self.tasks.count(partition, values, sure=sure)
            self.group.evidence += [
                Write("evidence", partition, values[new]) for new in counted.new
            ]
            self.group.tasks.update(counted.tasks.tolist())
            self._reject("votes", partition, counted.outcome)
            values = values[counted.outcome.records :]
            self.ask()
            sure = True

    def ask(self) -> None:
        """Where the topics end now that users write to."""
        self.ends.labels[:] = list(map(len, self.log["labels"]))
        self.ends.tasks[:] = list(map(len, self.log["tasks"]))

    def _reject(self, topic: str, partition: int, outcome: Restored) -> None:
        self.rejected += [(topic, partition, why) for why in outcome.rejected.values()]

    def heed(self, partition: int, most: int | None = None) -> None:
        """Heed the next descriptions of a partition."""
        for record in self.read("tasks", partition, most):
            try:
                description = self.parse_task(record.key, record.value)
            except BadRecord as bad:
                self.rejected.append(("tasks", partition, bad))
                continue
            number = self.tasks.describe(partition, description, record.offset, record.timestamp)
            if number is not None:
                self.group.tasks.add(number)

    def hear(self, partition: int, most: int | None = None) -> None:
        """Hear what is told of a partition."""
        records = self.log["estimates"][partition][self.heard[partition] :][:most]
        self.heard[partition] += len(records)
        for record in records:
            bad = self.exchange.hear(partition, record.value)
            if bad is not None:
                self.rejected.append(("estimates", partition, bad))
        if records:
            self.check_budget()

    def hear_all(self) -> None:
        """Hear all that was told."""
        for partition in range(self.log.partitions):
            self.hear(partition)

    def refresh(self, labels: int = 1_000_000) -> bool:
        """Weigh anew about so many labels of tasks that are due; False when all rest."""
        return self.crowd.engine.refresh_due(labels)

    # What goes out.

    def pack(self) -> Parcel:
        """As the publisher packs a group."""
        group, self.group = self.group, Group()
        parcel = Parcel([], [], dict(self.positions))
        for partition, taken in group.taken.items():
            if taken.labels:
                self.rejected += [("labels", partition, why) for _, why in taken.rejected]
                for value in taken.records():
                    parcel.first.append(Write("answers", partition, value))
                parcel.then += votes_in(taken.votes)
        parcel.first += group.evidence
        tasks = self._tasks(group)
        workers = self.crowd.engine.moved_workers()
        self.tasks.apply_rules(tasks)
        for partition, facts in self.tasks.facts():
            parcel.first.append(Write("evidence", partition, encode_facts(facts)))
        homes = self.crowd.task.home[tasks].tolist()
        for partition, (key, value) in zip(homes, self.tasks.posteriors(tasks), strict=True):
            parcel.then.append(Write("posteriors", partition, value, key))
        if group.tells_all:
            parcel.then += estimates_in(self.exchange.tell_all())
        parcel.then += estimates_in(self.exchange.tell(tasks, workers))
        if not parcel.first:
            parcel.first, parcel.then = parcel.then, parcel.first
        return parcel

    def _tasks(self, group: Group) -> Ints:
        if not self.tasks.is_restored:
            self.crowd.touched.update(group.tasks)
            return np.empty(0, np.int64)
        moved = self.crowd.moved()
        asked = np.array(sorted(group.tasks), np.int64)
        return np.union1d(moved, asked[self.crowd.is_own_task(asked)]).astype(np.int64)

    def publish(self, goes_out: Callable[[Write], bool] = lambda write: True) -> None:
        """Publish the group, as far as it goes out, with what is owed of the one before."""
        parcel, owed = self.pack(), self.owed
        writes = (owed.then if owed else []) + parcel.first
        if self.is_fenced and not self.is_member:
            self.owed = None
            self.is_void |= any(write.topic != "estimates" for write in writes)
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
        self.owed = parcel if parcel.then else None
        if not parcel.then:
            self._finish(parcel)

    def _may(self, write: Write, goes_out: Callable[[Write], bool]) -> bool:
        # nobody recovers from posteriors
        return goes_out(write) and (self.is_member or write.topic != "posteriors")

    def _wrote(self, topic: str, partition: int, offset: int, writes: Sequence[Write]) -> None:
        """As the table does: what follows on the last need not be read again."""
        known = self.restored[topic]
        if known[partition] == offset - len(writes) + 1:
            known[partition] = offset + 1
        else:
            self.diverged[topic].add(partition)

    def _finish(self, parcel: Parcel) -> None:
        self.done.update(parcel.upto)
        self.check_budget()

    def commit(self) -> None:
        """Commit what is published; Kafka refuses it of those who are no members any more."""
        if self.is_member:
            self.log.committed.update(self.done)
        self.done = {}

    def flush(self) -> None:
        """Publish all there is."""
        self.publish()
        while self.owed:
            self.publish()

    def check_budget(self) -> None:
        """As the publisher does."""
        if self.tasks.rules.budget is None:
            return
        spent = self.tasks.rules.is_spent(self.crowd.labels)
        if spent is not self.tasks.spent:
            self.tasks.spent = spent
            self.apply_rules_to(self.partitions)

    def apply_rules_to(self, partitions: Iterable[int]) -> None:
        """As the publisher does."""
        for partition in partitions:
            self.group.tasks.update(self.tasks.apply_rules_to_all(partition).tolist())

    # Partitions that come and go.

    def assign(self, partitions: set[int]) -> None:
        """As the tables do: forget what went to others, begin what is new, keep what stays."""
        missed, self.missed, self.is_member = self.missed, False, True
        if self.is_void:
            self.is_void = False
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
        """As the tables do."""
        for partition in partitions:
            del self.restored[topic][partition]
            self.diverged[topic].discard(partition)
            self.close(topic, partition)

    def open(self, topic: str, partition: int) -> None:
        """As the agents do."""
        if topic == "answers":
            self.workers.open(partition)
        else:
            self.tasks.open(partition)

    def close(self, topic: str, partition: int) -> None:
        """As the agents do."""
        if topic == "answers":
            self.workers.close(partition)
        else:
            self.exchange.left(partition)
            self.tasks.close(partition)

    def restore(self, topic: str, partition: int, most: int | None = None) -> None:
        """Apply what a changelog has that is not known yet, or the first of it."""
        known = self.restored[topic]
        records = self.log[topic][partition][known[partition] :][:most]
        known[partition] += len(records)
        sure = False
        while records:
            if topic == "answers":
                values = [record.value for record in records]
                restored = self.workers.restore(partition, values, sure=sure)
            else:
                pairs = [(record.timestamp, record.value) for record in records]
                restored = self.tasks.restore(partition, pairs, sure=sure)
            self._reject(topic, partition, restored)
            records = records[restored.records :]
            self.ask()
            sure = True

    def restore_all(self, topics: Iterable[str] = CHANGELOGS) -> None:
        """Apply all that there is in the changelogs."""
        for topic in topics:
            for partition in self.partitions:
                self.restore(topic, partition)

    def workers_ready(self, take_over: Callable[[set[int]], None] = lambda _: None) -> None:
        """As the worker agent does; the policy agent takes over in between."""
        for partition in self.partitions:
            self.workers.ready(partition)
        take_over(set(self.partitions))
        for partition in self.partitions:
            state = self.workers.partitions[partition]
            for answers in state.last_answers:
                for write in votes_in(answers.votes):
                    self.log.write(write)
            state.last.clear()

    def tasks_ready(self, generation: int) -> None:
        """As the task agent does, up to the point where it has told everybody."""
        while self.crowd.engine.is_settled and self.refresh():
            pass
        self.group.tasks.update(self.tasks.ready(self.partitions, generation).tolist())
        self.tasks.spent = self.tasks.rules.is_spent(self.crowd.labels)
        self.apply_rules_to(self.partitions)
        self.exchange.hear_of_crowd()
        self.group.tells_all = True
        self.flush()


def votes_in(votes: Iterable[tuple[int, bytes]]) -> list[Write]:
    """Records of the votes topic; skips go nowhere."""
    return [Write("votes", home, value) for home, value in votes if home != NOBODY]


def estimates_in(told: Told) -> list[Write]:
    """Records of the estimates topic."""
    return [
        Write("estimates", partition, value)
        for partition, values in told.items()
        for value in values
    ]


class OneInstance(Instance):
    """All partitions on one instance, which publishes at once what it makes of labels."""

    def __init__(
        self,
        log: Log,
        project: Project = Project(),  # noqa: B008  # frozen
        *,
        recovers: bool = True,
    ) -> None:
        super().__init__(log, project)
        if recovers:
            self.recover()

    def recover(self, take_over: Callable[[set[int]], None] = lambda _: None) -> None:
        """Take up what there is in the log."""
        self.assign(set(range(self.log.partitions)))
        self.restore_all()
        self.workers_ready(take_over)
        self.tasks_ready(generation=1)
        self.flush()

    def take(
        self, partition: int, records: Sequence[Record], *, crash_before_votes: bool = False
    ) -> Taken[Record]:
        """What the worker agent does with a batch, up to a crash."""
        taken = self.group.taken[partition]
        self.workers.take(partition, records, taken)
        if crash_before_votes:
            self.publish()
            self.owed = None
        else:
            self.flush()
        return taken

    def label(self, task: str, worker: str, label: int | str | None) -> Taken[Record]:
        """Produce a label and take it."""
        partition = self.log.produce(task, worker, label)
        return self.take(partition, self.log["labels"][partition][-1:])

    def count(self, *, from_the_start: bool = False) -> None:
        """What the task agent does with all votes that wait."""
        for partition in range(self.log.partitions):
            if from_the_start:
                self.positions["votes", partition] = 0
            self.count_votes(partition)
        self.flush()

    def describe(self, description: Description | NamedDescription) -> None:
        """Describe a task, and publish what comes of it."""
        partition = self.log.describe(description)
        self.heed(partition)
        self.flush()

    def publish_all(self) -> None:
        """Publish the posterior of every task once more."""
        self.group.tasks.update(range(len(self.crowd.tasks)))
        self.flush()

    def number_of_task(self, task: str) -> int:
        """The number of a task."""
        number = self.crowd.tasks.known(task)
        assert number is not None
        return number

    def worker(self, name: str) -> dict[str, Any]:
        """What would be published of a worker."""
        [record] = encode_workers(self.crowd, self.crowd.number_workers([name]))
        found: dict[str, Any] = loads(record.value)
        return found

    def results(self) -> dict[str, dict[str, Any]]:
        """The last posterior of every task."""
        return self.log.posteriors()


class Cluster:
    """Instances of one group; partition p of all topics belongs to one of them."""

    def __init__(self, log: Log, project: Project) -> None:
        self.log = log
        self.project = project
        self.members: list[Instance] = []
        self.stalled: list[Instance] = []
        self.generation = 0

    def owner(self, partition: int) -> Instance:
        """Who owns a partition."""
        return next(member for member in self.members if partition in member.partitions)

    def rebalance(self, members: Sequence[Instance], owners: Sequence[int]) -> None:
        """Let these be the members, and `owners` say whose each partition is, by number.

        Who was a member and still is has published and committed everything before that.
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
            # the tables become ready in any order
            if owners[-1 - number] % 2:
                member.workers_ready()
            member.tasks_ready(self.generation)
            if not owners[-1 - number] % 2:
                member.workers_ready()
        for member in members:
            if member.partitions and member.exchange.missing:
                member.hear_all()
                assert not member.exchange.missing

    def settle(self) -> None:
        """Let everything be delivered and come to rest."""
        size = -1
        while size != (size := sum(len(p) for topic in self.log.topics.values() for p in topic)):
            for member in self.members:
                for partition in member.partitions:
                    member.take_labels(partition)
                    member.heed(partition)
                    member.count_votes(partition)
                while member.refresh():
                    pass
                member.flush()
                member.hear_all()
                while member.refresh():
                    pass
                if member.crowd.engine.has_news:
                    member.flush()
