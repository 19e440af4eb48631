"""Whatever happens on the way, what is published in the end is what the labels say.

Labels and descriptions come in any order and at any pace; instances take them, count them, hear
of each other, crash between two steps of a publication, come and go, and stall: then what they had
under way is void when others have taken their place. In the moment that their fence does not cover
they write it all the same; even then each label counts once.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.classes import RETRACT, SIGNS, SKIP, Classes
from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.fast_sbic import FastSBIC
from pipeline.records.labels import label_parser
from pipeline.records.many_votes import parse_votes
from pipeline.records.tasks import ParsedDescription, task_parser
from tests.examples import examples
from tests.stages.simulated_kafka import PRIOR, Cluster, Instance, Log, OneInstance, Project, Write

PARTITIONS = 4
FOUR = Classes(("cat", "dog", "bird", "fish"))
TASKS = ["t0", "t1", "t2", "t3", "t6", "t8"]
WORKERS = ["ann", "bob", "eve", "fay", "gus", "ida", "kim"]
NUMBERS = st.integers(0, 999)
OWNERS = st.lists(st.integers(0, 5), min_size=PARTITIONS, max_size=PARTITIONS)
Repeats = Literal["first", "last"]
GOOD_CROWD = Prior(alpha=20, beta=5)


def truth_of(task: str, classes: Classes) -> int | str:
    return classes.label_of(TASKS.index(task) % len(classes))


def prior_of(task: str, classes: Classes) -> float | dict[str, float]:
    truth = truth_of(task, classes)
    if classes.is_signs:
        return 0.7 if truth == 1 else 0.3
    return {name: 0.4 if name == truth else 0.2 for name in classes.names}


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


STEPS = st.tuples(
    st.sampled_from(
        ["take", "take", "take", "count", "count", "heed", "hear", "refresh", "publish", "publish"]
    ),
    NUMBERS,  # the instance
    NUMBERS,  # the partition, of its own
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
    kinds = [labels, labels, labels, STEPS, STEPS, STEPS, descriptions_of(classes), FAULTS]
    events = st.one_of(kinds)
    return st.lists(events, max_size=12) | st.lists(events, min_size=25, max_size=80)


class Schedule:
    """A cluster to which things happen."""

    def __init__(self, project: Project, instances: int) -> None:
        self.log = Log(PARTITIONS)
        self.project = project
        self.cluster = Cluster(self.log, project)
        members = [Instance(self.log, project) for _ in range(instances)]
        self.cluster.rebalance(members, range(PARTITIONS))

    def run(self, events: Sequence[tuple[Any, ...]]) -> None:
        """Let these happen one after the other."""
        for verb, *details in events:
            self.log.now += 1
            getattr(self, verb)(*details)

    def some_instance(self, number: int) -> Instance:
        """Any instance, those that are stalled and do not know it among them."""
        instances = self.cluster.members + self.cluster.stalled
        return instances[number % len(instances)]

    def label(self, *triple: Any) -> None:
        self.log.produce(*triple)

    def describe(self, description: Any) -> None:
        self.log.describe(description)

    def take(self, instance: int, partition: int, most: int) -> None:
        self._step(Instance.take_labels, instance, partition, most)

    def count(self, instance: int, partition: int, most: int) -> None:
        self._step(Instance.count_votes, instance, partition, most)

    def heed(self, instance: int, partition: int, most: int) -> None:
        self._step(Instance.heed, instance, partition, most)

    def _step(self, step: Any, number: int, partition: int, most: int) -> None:
        instance = self.some_instance(number)
        if instance.partitions:
            step(instance, instance.partitions[partition % len(instance.partitions)], most)

    def hear(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).hear(partition % PARTITIONS, most)

    def refresh(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).refresh(most)

    def publish(self, instance: int, partition: int, most: int) -> None:
        self.some_instance(instance).publish()

    def commit(self, instance: int) -> None:
        self.some_instance(instance).commit()

    def wait(self) -> None:
        """Time passes, in which all is published that is under way."""
        for member in self.cluster.members:
            member.flush()
        self.log.now += 20_000

    def crash(self, number: int, written: int, owners: Sequence[int]) -> None:
        """A member crashes while it publishes: only some partitions of some topics get theirs."""
        crashed = self.cluster.members[number % len(self.cluster.members)]
        if written % 3:
            crashed.publish(lambda write: hash_of(write, written) % 2 == 0)
        self._without(crashed, owners)

    def stall(self, number: int, publishes: bool, owners: Sequence[int]) -> None:
        """A member is put out of the group, and does not know it yet."""
        stalled = self.cluster.members[number % len(self.cluster.members)]
        if publishes:
            stalled.publish()
        self._without(stalled, owners)
        self.cluster.stalled.append(stalled)

    def wake(self, number: int, dies: bool, owners: Sequence[int]) -> None:
        """Who was stalled writes what was under way, and joins again or is killed."""
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
            self.cluster.rebalance([*members, Instance(self.log, self.project)], owners)

    def leave(self, number: int, owners: Sequence[int]) -> None:
        """A member leaves in good order."""
        leaving = self.cluster.members[number % len(self.cluster.members)]
        leaving.flush()
        leaving.commit()
        self._without(leaving, owners)

    def move(self, owners: Sequence[int]) -> None:
        self.cluster.rebalance(self.cluster.members, owners)

    def _without(self, gone: Instance, owners: Sequence[int]) -> None:
        others = [member for member in self.cluster.members if member is not gone]
        self.log.now += 10_000  # until Kafka knows
        self.cluster.rebalance(others or [Instance(self.log, self.project)], owners)

    def end(self) -> None:
        """Who is stalled writes what was under way; then all is delivered."""
        for stalled in self.cluster.stalled:
            stalled.flush()
        self.cluster.settle()


def hash_of(write: Write, seed: int) -> int:
    """Some number for a partition of a topic."""
    return (hash_of_text(write.topic) + 7 * write.partition) * (seed + 1) >> 3


def hash_of_text(text: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(text))


@dataclass
class Standing:
    """A label that stands: where it is in the labels topic, and the number of its class."""

    partition: int
    offset: int
    answer: int


class Expected:
    """What the inputs say, whatever was made of them."""

    def __init__(self, log: Log, project: Project) -> None:
        parse = label_parser(project.classes)
        self.standing: dict[tuple[str, str], Standing] = {}
        self.sources: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.descriptions: dict[str, ParsedDescription] = {}
        for partition, records in enumerate(log["labels"]):
            for record in records:
                task, worker, answer = parse(record.value)
                known = self.standing.get((task, worker))
                if answer == SKIP or (answer == RETRACT and known is None):
                    continue
                self.sources[task][str(partition)] = record.offset
                if answer == RETRACT:
                    del self.standing[task, worker]
                elif known is None or (project.repeats == "last" and known.answer != answer):
                    self.standing[task, worker] = Standing(partition, record.offset, answer)
        parse_task = task_parser(project.classes)
        for records in log["tasks"]:
            for record in records:
                description = parse_task(record.key, record.value)
                self.descriptions.setdefault(description["task"], {}).update(description)
                self.sources[description["task"]]["tasks"] = record.offset

    def labels(self, task: str) -> list[Standing]:
        return [label for (name, _), label in self.standing.items() if name == task]


def check_facts(posteriors: dict[str, dict[str, Any]], expected: Expected) -> None:
    """The last posterior of every task counts its labels that stand, and heeds what is said."""
    assert set(posteriors) == set(expected.sources)
    for task, posterior in posteriors.items():
        description = expected.descriptions.get(task, {})
        assert posterior["labels"] == len(expected.labels(task))
        assert posterior["sources"] == expected.sources[task]
        assert ("gold" in posterior) is (description.get("gold") is not None)
        assert ("prior" in posterior) is (description.get("prior") is not None)
        assert posterior["status"] == (description.get("status") or "open")


def check_votes(log: Log, expected: Expected) -> None:
    """The log-odds of every task are its prior and one vote of each label that stands."""
    cast = defaultdict(set)
    for records in log["votes"]:
        for record in records:
            votes = parse_votes(record.value, 2)
            for offset, vote in zip(votes.offsets.tolist(), votes.votes.tolist(), strict=True):
                cast[votes.source, offset].add(vote)
    for task, posterior in log.posteriors().items():
        prior = expected.descriptions.get(task, {}).get("prior") or [1 - PRIOR.q, PRIOR.q]
        start = np.log(prior[1] / prior[0])
        # two instances may have taken a label, and weighed it each in its own way
        votes_of = [cast[label.partition, label.offset] for label in expected.labels(task)]
        sums = [start + sum(votes) for votes in product(*votes_of)]
        found = posterior["evidence"] if "gold" in posterior else posterior["log_odds"]
        assert any(found == pytest.approx(total, abs=1e-9) for total in sums)


def check_agreement(members: Sequence[Instance], log: Log) -> None:
    """Every instance believes of every task what readers of the last posteriors do.

    Of tasks without labels nobody is told.
    """
    for task, posterior in log.posteriors().items():
        for member in members:
            number = member.crowd.tasks.known(task)
            if number is not None and posterior["labels"]:
                belief = member.crowd.engine.beliefs([number])[0, 1]
                assert belief == pytest.approx(posterior["probability"], abs=1e-9)


class Offline:
    """The computation on all labels at once, which has come to rest."""

    def __init__(self, expected: Expected, classes: int) -> None:
        self.engine = Engine("settled", classes=classes, prior=GOOD_CROWD)
        self.tasks = sorted(expected.sources)
        self.numbers = np.arange(len(self.tasks))
        rows = [
            (self.tasks.index(task), WORKERS.index(worker), label.answer)
            for (task, worker), label in expected.standing.items()
        ]
        self.engine.make_room(len(self.tasks), len(WORKERS))
        if rows:
            self.engine.take(*zip(*rows, strict=True))
        for task, description in expected.descriptions.items():
            self.engine.set_gold(self.tasks.index(task), description.get("gold"))
            self.engine.set_prior(self.tasks.index(task), description.get("prior"))
        self.engine.settle(1e-12)

    def beliefs(self) -> dict[str, list[float]]:
        return dict(zip(self.tasks, self.engine.beliefs(self.numbers).tolist(), strict=True))

    def begin_at(self, beliefs: dict[str, list[float]]) -> None:
        """Come to rest from these beliefs on."""
        golds = self.engine.golds(self.numbers)
        scores = np.log([np.maximum(beliefs[task], 1e-300) for task in self.tasks])
        self.engine.leave_tasks(self.numbers)
        self.engine.hear_of_tasks(self.numbers, scores.reshape(len(golds), -1), golds)
        self.engine.enter_tasks(self.numbers)
        self.engine.settle(1e-12)


def check_rest(log: Log, expected: Expected, classes: Classes) -> None:
    """What is published is what the offline computation comes to.

    A crowd of a few labels may have several points of rest: if it were believed that all are wrong,
    that would agree with itself. Here strangers are known to be mostly right. Where gold or a prior
    contradicts labels there may be several all the same, and it has to be one of them.
    """
    told: dict[str, list[float]] = {}
    for task, posterior in log.posteriors().items():
        if classes.is_signs:
            told[task] = [1 - posterior["probability"], posterior["probability"]]
        else:
            told[task] = [posterior["probabilities"][name] for name in classes.names]
    offline = Offline(expected, len(classes))
    if is_like(told, offline.beliefs(), expected):
        return
    assert any(
        description.get("gold") is not None or description.get("prior") is not None
        for description in expected.descriptions.values()
    )
    offline.begin_at(told)
    assert is_like(told, offline.beliefs(), expected)


def is_like(
    told: dict[str, list[float]], beliefs: dict[str, list[float]], expected: Expected
) -> bool:
    """Whether beliefs are the same; of a task without labels the class prior of then is told."""
    return all(
        told[task] == pytest.approx(beliefs[task], abs=1e-6)
        for task in told
        if expected.labels(task)
    )


def check(project: Project, instances: int, events: Sequence[tuple[Any, ...]]) -> None:
    """Let things happen to so many instances, and check what is published in the end."""
    schedule = Schedule(project, instances)
    schedule.run(events)
    schedule.end()
    expected = Expected(schedule.log, project)
    check_facts(schedule.log.posteriors(), expected)
    if project.algorithm == "settled":
        check_rest(schedule.log, expected, project.classes)
    else:
        check_votes(schedule.log, expected)
        if project.is_fenced:
            check_agreement(schedule.cluster.members, schedule.log)


REPEATS = st.sampled_from(["first", "last"])


@examples(400)
@given(schedules(SIGNS), st.integers(1, 3), REPEATS, st.booleans())
def test_fast_sbic_counts_each_label_that_stands_once(
    events: list[tuple[Any, ...]], instances: int, repeats: Repeats, is_fenced: bool
) -> None:
    check(Project("fast-sbic", repeats=repeats, is_fenced=is_fenced), instances, events)


@pytest.mark.parametrize("classes", [SIGNS, FOUR], ids=["2", "4"])
@examples(150)
@given(data=st.data(), instances=st.integers(1, 3), repeats=REPEATS, is_fenced=st.booleans())
def test_settled_comes_to_rest_where_the_offline_computation_does(
    classes: Classes, data: st.DataObject, instances: int, repeats: Repeats, is_fenced: bool
) -> None:
    project = Project("settled", classes, repeats, prior=GOOD_CROWD, is_fenced=is_fenced)
    check(project, instances, data.draw(schedules(classes)))


FAST = Project("fast-sbic", is_fenced=False)
SETTLED = Project("settled", FOUR, prior=GOOD_CROWD, is_fenced=False)
WENT_WRONG: dict[str, tuple[Project, int, list[tuple[Any, ...]]]] = {
    "a task moves to where its label was taken while it was elsewhere": (
        FAST,
        1,
        [
            ("join", [0, 0, 0, 1]),
            ("label", "t0", "gus", -1),
            ("take", 1, 0, 1),
            ("leave", 0, [0, 0, 0, 0]),
        ],
    ),
    "a repeat of a worker elsewhere": (
        FAST,
        2,
        [("label", "t3", "kim", -1), ("take", 1, 0, 1), ("label", "t3", "kim", 1)],
    ),
    "who was stalled comes back, and is told votes of a third": (
        FAST,
        2,
        [
            ("stall", 397, False, [0, 5, 5, 1]),
            ("stall", 497, False, [2, 3, 3, 2]),
            ("label", "t1", "ida", 1),
            ("label", "t3", "ida", 1),
            ("take", 115, 858, 3),
            ("wake", 719, False, [4, 3, 3, 2]),
            ("publish", 263, 479, 1),
            ("stall", 912, False, [5, 5, 2, 2]),
        ],
    ),
    "two crashes one after the other, each before the posterior": (
        FAST,
        2,
        [
            ("describe", {"task": "t6", "prior": None, "status": "closed"}),
            ("join", [3, 0, 3, 4]),
            ("leave", 964, [1, 1, 3, 0]),
            ("heed", 99, 154, 3),
            ("crash", 161, 685, [2, 0, 3, 1]),
            ("stall", 630, True, [0, 2, 5, 3]),
        ],
    ),
    "who stalled before anything was written tells of itself late": (
        SETTLED,
        3,
        [
            ("crash", 35, 562, [1, 5, 5, 4]),
            ("join", [5, 2, 3, 4]),
            ("label", "t0", "eve", "cat"),
            ("label", "t1", "gus", "dog"),
            ("stall", 457, False, [5, 2, 5, 0]),
            ("take", 5, 869, 3),
        ],
    ),
    "a label is taken twice, and the evidence has the vote that its owner does not count": (
        Project("fast-sbic"),
        2,
        [
            ("move", [0, 0, 0, 0]),
            ("label", "t2", "ann", 1),
            ("take", 0, 2, 1),
            ("wait",),
            ("commit", 0),
            ("label", "t1", "ann", 1),
            ("take", 0, 2, 1),
            ("stall", 0, False, [0, 0, 0, 0]),
            ("label", "t2", "eve", 1),
            ("take", 0, 0, 1),  # ann is worth more then
            ("take", 0, 2, 3),
            ("publish", 0, 0, 1),
            *[("publish", 1, 0, 1)] * 2,  # late
            ("publish", 0, 0, 1),
            ("count", 0, 3, 3),
            ("wait",),
            ("label", "t8", "ann", 1),
            ("take", 0, 2, 1),
            ("wait",),
            ("count", 0, 3, 1),
            ("join", [0, 0, 0, 1]),
        ],
    ),
}


@pytest.mark.parametrize("name", WENT_WRONG)
def test_what_once_went_wrong(name: str) -> None:
    check(*WENT_WRONG[name])


class InOrder:
    """Algorithm 1 on the labels that an instance takes, in the order in which it takes them."""

    def __init__(self, repeats: Repeats) -> None:
        self.repeats = repeats
        self.engine: FastSBIC[str, str] = FastSBIC(PRIOR)
        self.stands: dict[tuple[str, str], int] = {}
        self.parse = label_parser(SIGNS)

    def observe(self, value: bytes | None) -> None:
        """Take a label, as the rules for repeats and retractions have it."""
        task, worker, answer = self.parse(value)
        known = self.stands.get((task, worker))
        if answer == SKIP or (known is None and answer == RETRACT):
            return
        if known is not None:
            if answer != RETRACT and (self.repeats == "first" or answer == known):
                return
            self.engine.revert(task, worker)
            del self.stands[task, worker]
        if answer != RETRACT:
            self.engine.observe(task, worker, 2 * answer - 1)
            self.stands[task, worker] = answer


ON_ONE = st.tuples(st.sampled_from(["take", "count", "publish"]), NUMBERS)


@given(st.lists(st.one_of(labels_of(SIGNS), labels_of(SIGNS), ON_ONE), max_size=60), REPEATS)
def test_fast_sbic_on_one_instance_is_algorithm_1_in_the_order_taken(
    events: list[tuple[Any, ...]], repeats: Repeats
) -> None:
    log = Log(PARTITIONS)
    project = Project("fast-sbic", repeats=repeats)
    instance, reference = OneInstance(log, project), InOrder(repeats)
    # in the end all are taken, whatever was taken before
    for verb, *details in [*events, *[("take", p) for p in range(PARTITIONS)] * len(events)]:
        if verb == "label":
            log.produce(*details)
        elif verb == "take":
            partition = details[0] % PARTITIONS
            at = instance.positions["labels", partition]
            instance.take_labels(partition, most=1)
            for record in log["labels"][partition][at : instance.positions["labels", partition]]:
                reference.observe(record.value)
        elif verb == "count":
            instance.count_votes(details[0] % PARTITIONS)
        else:
            instance.publish()
    instance.flush()
    instance.count()
    check_facts(log.posteriors(), Expected(log, project))
    for task, posterior in log.posteriors().items():
        assert posterior["log_odds"] == pytest.approx(reference.engine.log_odds(task), abs=1e-9)
    for name in {worker for _, worker in reference.stands}:
        worker = instance.worker(name)
        assert worker["labels"] == reference.engine.labels(name)
        assert worker["correct"] == pytest.approx(reference.engine.correct(name), abs=1e-9)
