"""Schedules: what happens to a simulated cluster, step by step, chosen by hypothesis."""

from collections.abc import Sequence
from typing import Any, Literal

from hypothesis import strategies as st

from sbic.classes import Classes, LabelForm
from sbic.engine.labels import Prior
from sbic.wire.workers import RosterEntry
from tests.stages.simulated.log import Log, Write
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.project import SimulatedProject

PARTITIONS = 4
FOUR = Classes(("cat", "dog", "bird", "fish"))
GRADES = Classes.of_scale("1..4")
TASKS = ["t0", "t1", "t2", "t3", "t6", "t8"]
WORKERS = ["ann", "bob", "eve", "fay", "gus", "ida", "kim"]
NUMBERS = st.integers(0, 999)
OWNERS = st.lists(st.integers(0, 5), min_size=PARTITIONS, max_size=PARTITIONS)
Repeats = Literal["first", "last"]
GOOD_CROWD = Prior(alpha=20, beta=5)


def truth_of(task: str, classes: Classes) -> LabelForm:
    return classes.label_of(TASKS.index(task) % len(classes))


def prior_of(task: str, classes: Classes) -> float | dict[str, float]:
    truth = truth_of(task, classes)
    if classes.is_signs:
        return 0.7 if truth == 1 else 0.3
    return {name: 0.4 if name == str(truth) else 0.2 for name in classes.names}


def labels_of(classes: Classes) -> st.SearchStrategy[tuple[Any, ...]]:
    """Labels of which most are right, skips and retractions."""

    def of_task(task: str) -> st.SearchStrategy[tuple[Any, ...]]:
        answers = [*[truth_of(task, classes)] * 4, *classes.labels, 0, None]
        return st.tuples(
            st.just("label"), st.just(task), st.sampled_from(WORKERS), st.sampled_from(answers)
        )

    return st.sampled_from(TASKS).flatmap(of_task)


def descriptions_of(classes: Classes) -> st.SearchStrategy[tuple[Any, ...]]:
    def of_task(task: str) -> st.SearchStrategy[dict[str, Any]]:
        fields = {
            "prior": st.sampled_from([prior_of(task, classes), None]),
            "gold": st.sampled_from([truth_of(task, classes), None]),
            "status": st.sampled_from(["open", "closed", None]),
        }
        return st.fixed_dictionaries({"task": st.just(task)}, optional=fields)

    return st.tuples(st.just("describe"), st.sampled_from(TASKS).flatmap(of_task))


ROSTER = st.tuples(
    st.just("say"),
    st.sampled_from(WORKERS),
    st.none()
    | st.builds(
        RosterEntry,
        blocked=st.sampled_from([True, False, None]),
        name=st.sampled_from(["A", None]),
        group=st.sampled_from(["f", "g", None, None]),
        tier=st.sampled_from([1, 2, None]),
        price=st.sampled_from([0.25, 3.0, None]),
    ),
)
STEPS = st.tuples(
    st.sampled_from(
        [
            *("take", "take", "take", "count", "count", "heed", "enlist", "hear", "refresh"),
            *("publish", "publish", "survey"),
        ]
    ),
    NUMBERS,  # the instance
    NUMBERS,  # which of its partitions
    st.integers(1, 3),  # how many records at the most
)
FAULTS = st.one_of(
    st.tuples(st.just("crash"), NUMBERS, NUMBERS, OWNERS),
    st.tuples(st.just("stall"), NUMBERS, st.booleans(), OWNERS),
    st.tuples(st.just("wake"), NUMBERS, st.booleans(), OWNERS),
    st.tuples(st.just("join"), OWNERS),
    st.tuples(st.just("leave"), NUMBERS, OWNERS),
    st.tuples(st.just("move"), OWNERS),
    st.tuples(st.just("commit"), NUMBERS),
    st.tuples(st.just("wait")),
)


def schedules(classes: Classes) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    labels = labels_of(classes)
    kinds = [labels, labels, labels, STEPS, STEPS, STEPS, descriptions_of(classes), ROSTER, FAULTS]
    events = st.one_of(kinds)
    return st.lists(events, max_size=12) | st.lists(events, min_size=25, max_size=80)


class Schedule:
    """A cluster, and the events that happen to it."""

    def __init__(self, project: SimulatedProject, instances: int) -> None:
        self.log = Log(PARTITIONS)
        self.project = project
        self.cluster = SimulatedCluster(self.log, project)
        members = [SimulatedMember(self.log, project) for _ in range(instances)]
        self.cluster.rebalance(members, range(PARTITIONS))

    def run(self, events: Sequence[tuple[Any, ...]]) -> None:
        """Apply the events one after the other."""
        for verb, *details in events:
            self.log.now += 1
            getattr(self, verb)(*details)

    def some_instance(self, number: int) -> SimulatedMember:
        """Any instance, stalled ones that do not know it included."""
        instances = self.cluster.members + self.cluster.stalled
        return instances[number % len(instances)]

    def label(self, *triple: Any) -> None:
        self.log.produce(*triple)

    def describe(self, description: Any) -> None:
        self.log.describe(description)

    def say(self, worker: str, entry: RosterEntry | None) -> None:
        self.log.enlist(worker, entry)

    def enlist(self, instance: int, partition: int, most: int) -> None:
        self._step(SimulatedMember.enlist, instance, partition, most)

    def take(self, instance: int, partition: int, most: int) -> None:
        self._step(SimulatedMember.take_labels, instance, partition, most)

    def count(self, instance: int, partition: int, most: int) -> None:
        self._step(SimulatedMember.count_votes, instance, partition, most)

    def heed(self, instance: int, partition: int, most: int) -> None:
        self._step(SimulatedMember.heed, instance, partition, most)

    def _step(self, step: Any, number: int, partition: int, most: int) -> None:
        instance = self.some_instance(number)
        if instance.partitions:
            step(instance, instance.partitions[partition % len(instance.partitions)], most)

    def hear(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).hear(partition % PARTITIONS, most)

    def refresh(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).refresh(most)

    def survey(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).survey()

    def publish(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).publish()

    def commit(self, instance: int) -> None:
        self.some_instance(instance).commit()

    def wait(self) -> None:
        """Let time pass: everything in flight is published."""
        for member in self.cluster.members:
            member.flush()
        self.log.now += 20_000

    def crash(self, number: int, written: int, owners: Sequence[int]) -> None:
        """Crash a member while it publishes: only some partitions receive their records."""
        crashed = self.cluster.members[number % len(self.cluster.members)]
        if written % 3:
            crashed.publish(lambda write: hash_of(write, written) % 2 == 0)
        self._without(crashed, owners)

    def stall(self, number: int, publishes: bool, owners: Sequence[int]) -> None:
        """Remove a member from the group without its knowledge."""
        stalled = self.cluster.members[number % len(self.cluster.members)]
        if publishes:
            stalled.publish()
        self._without(stalled, owners)
        self.cluster.stalled.append(stalled)

    def wake(self, number: int, dies: bool, owners: Sequence[int]) -> None:
        """Let a stalled instance publish what it had in flight, and rejoin or be killed."""
        if not self.cluster.stalled:
            return
        awake = self.cluster.stalled.pop(number % len(self.cluster.stalled))
        if dies or len(self.cluster.members) == 3:
            awake.flush()
        else:
            self.cluster.rebalance([*self.cluster.members, awake], owners)

    def join(self, owners: Sequence[int]) -> None:
        members = self.cluster.members
        if len(members) < 3:
            self.cluster.rebalance([*members, SimulatedMember(self.log, self.project)], owners)

    def leave(self, number: int, owners: Sequence[int]) -> None:
        """A member leaves in good order."""
        leaving = self.cluster.members[number % len(self.cluster.members)]
        leaving.flush()
        leaving.commit()
        self._without(leaving, owners)

    def move(self, owners: Sequence[int]) -> None:
        self.cluster.rebalance(self.cluster.members, owners)

    def _without(self, gone: SimulatedMember, owners: Sequence[int]) -> None:
        others = [member for member in self.cluster.members if member is not gone]
        self.log.now += 10_000  # until the session expires
        self.cluster.rebalance(others or [SimulatedMember(self.log, self.project)], owners)

    def end(self) -> None:
        """Let stalled instances publish what they had in flight; then deliver everything."""
        for stalled in self.cluster.stalled:
            stalled.flush()
        self.cluster.settle()


def hash_of(write: Write, seed: int) -> int:
    """A number for a partition of a topic."""
    return (hash_of_text(write.topic) + 7 * write.partition) * (seed + 1) >> 3


def hash_of_text(text: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(text))
