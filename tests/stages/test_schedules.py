"""After any schedule of events and faults, the published posteriors follow from the labels.

Labels and descriptions arrive in any order and at any pace. Instances take and count them, read
each other's estimates, crash between two steps of a publication, join, leave and stall. What a
stalled instance had in flight is void once others own its partitions. In the moment that the fence
does not cover, the instance publishes it nevertheless; even then each label counts once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sbic.classes import RETRACT, SIGNS, SKIP, Classes
from sbic.engine import AlgorithmName
from sbic.engine.copies import COMMON
from sbic.infer.fast_sbic import FastSBIC
from sbic.instance.tasks import StopRules
from sbic.wire.changelogs import Answers, Piece, VotesFor, encode_answers
from sbic.wire.columns import Names
from sbic.wire.labels import label_parser
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import Description
from sbic.wire.votes import Votes, encode_votes
from tests.examples import examples
from tests.stages.lone_tasks import LoneTasks, vote_on
from tests.stages.published import (
    ExpectedResults,
    check_agreement,
    check_facts,
    check_flat,
    check_rest,
    check_roster,
    check_tiers,
    check_votes,
)
from tests.stages.schedules import (
    FOUR,
    GOOD_CROWD,
    GRADES,
    NUMBERS,
    PARTITIONS,
    Repeats,
    Schedule,
    labels_of,
    schedules,
)
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import PRIOR, SimulatedProject
from tests.stages.test_tasks import DESCRIPTIONS, RULES, VOTES


def check(project: SimulatedProject, instances: int, events: Sequence[tuple[Any, ...]]) -> None:
    """Apply events to this many instances, and check what is published at the end."""
    schedule = Schedule(project, instances)
    schedule.run(events)
    schedule.end()
    expected = ExpectedResults(schedule.log, project)
    check_facts(schedule.log.posteriors(), expected)
    check_roster(schedule.cluster.members, schedule.log)
    if project.is_flat:
        check_flat(schedule.log, project.classes)
    if project.algorithm == "settled":
        check_rest(schedule.log, expected, project.classes, project.common)
    else:
        check_votes(schedule.log, expected)
        if project.is_fenced:
            check_agreement(schedule.cluster.members, schedule.log)


REPEATS = st.sampled_from(["first", "last"])


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
@examples(75)
@given(
    schedules(SIGNS),
    st.integers(1, 3),
    REPEATS,
    st.booleans(),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([2, COMMON]),
)
def test_the_tier_of_a_task_follows_from_labels_skips_and_roster(
    algorithm: AlgorithmName,
    events: list[tuple[Any, ...]],
    instances: int,
    repeats: Repeats,
    is_fenced: bool,
    tier_labels: int | None,
    common: int,
) -> None:
    project = SimulatedProject(
        algorithm,
        repeats=repeats,
        prior=GOOD_CROWD,
        rules=StopRules(escalates=True, tier_labels=tier_labels),
        is_fenced=is_fenced,
        common=common,
    )
    schedule = Schedule(project, instances)
    schedule.run(events)
    schedule.end()
    for _ in range(2):  # the roster may have changed after the last survey
        for member in schedule.cluster.members:
            member.survey()
        schedule.cluster.settle()
    expected = ExpectedResults(schedule.log, project)
    check_roster(schedule.cluster.members, schedule.log)
    check_tiers(schedule.cluster.members, schedule.log, expected, tier_labels)
    if algorithm == "settled":
        check_rest(schedule.log, expected, project.classes, common)


@examples(200)
@given(schedules(SIGNS), st.integers(1, 3), REPEATS, st.booleans())
def test_fast_sbic_counts_each_label_that_stands_once(
    events: list[tuple[Any, ...]], instances: int, repeats: Repeats, is_fenced: bool
) -> None:
    project = SimulatedProject("fast-sbic", repeats=repeats, is_fenced=is_fenced, is_flat=True)
    check(project, instances, events)


@pytest.mark.parametrize("classes", [SIGNS, FOUR, GRADES], ids=["2", "4", "grades"])
@examples(75)
@given(
    data=st.data(),
    instances=st.integers(1, 3),
    repeats=REPEATS,
    is_fenced=st.booleans(),
    common=st.sampled_from([2, COMMON]),
)
def test_settled_comes_to_rest_where_the_offline_computation_does(
    classes: Classes,
    data: st.DataObject,
    instances: int,
    repeats: Repeats,
    is_fenced: bool,
    common: int,
) -> None:
    project = SimulatedProject(
        "settled", classes, repeats, prior=GOOD_CROWD, is_fenced=is_fenced, common=common
    )
    check(project, instances, data.draw(schedules(classes)))


FAST = SimulatedProject("fast-sbic", is_fenced=False)
SETTLED = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, is_fenced=False)
WENT_WRONG: dict[str, tuple[SimulatedProject, int, list[tuple[Any, ...]]]] = {
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
    "a stalled instance rejoins, and reads votes of a third": (
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
    "an instance that stalled before it published publishes its estimates late": (
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
        SimulatedProject("fast-sbic"),
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
    "a label is taken back where its vote is not read yet, and the evidence is restored": (
        SimulatedProject("fast-sbic"),
        2,
        [
            ("move", [0, 0, 0, 1]),
            ("label", "t1", "ann", 1),
            ("take", 0, 2, 1),
            ("wait",),
            ("move", [0, 0, 0, 0]),
            ("label", "t1", "ann", None),
            ("take", 0, 2, 1),
            ("wait",),
            ("count", 0, 3, 3),
            ("wait",),
            ("move", [0, 0, 0, 1]),
        ],
    ),
}


@pytest.mark.parametrize("name", WENT_WRONG)
def test_schedules_that_once_went_wrong(name: str) -> None:
    check(*WENT_WRONG[name])


class InOrder:
    """Algorithm 1 on labels in the order in which an instance takes them."""

    def __init__(self, repeats: Repeats) -> None:
        self.repeats = repeats
        self.engine: FastSBIC[str, str] = FastSBIC(PRIOR)
        self.stands: dict[tuple[str, str], int] = {}
        self.parse = label_parser(SIGNS)

    def observe(self, value: bytes | None) -> None:
        """Observe a label by the rules for repeats and retractions."""
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
    project = SimulatedProject("fast-sbic", repeats=repeats)
    instance, reference = OneInstance(log, project), InOrder(repeats)
    # at the end all labels are taken
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
    check_facts(log.posteriors(), ExpectedResults(log, project))
    for task, posterior in log.posteriors().items():
        assert posterior["log_odds"] == pytest.approx(reference.engine.log_odds(task), abs=1e-9)
    for name in {worker for _, worker in reference.stands}:
        worker = instance.worker(name)
        assert worker["labels"] == reference.engine.labels(name)
        assert worker["correct"] == pytest.approx(reference.engine.correct(name), abs=1e-9)


# A rebalance during a recovery revokes partitions; the others are not read again.


TWO_PARTITIONS = 2


def name_of(word: str, partition: int) -> str:
    """A name that belongs to a partition."""
    names = (f"{word}{number}" for number in range(99))
    return next(name for name in names if partition_of(name.encode(), TWO_PARTITIONS) == partition)


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
@pytest.mark.parametrize("kept", [0, 1])
def test_labels_of_own_workers_on_tasks_revoked_during_a_recovery_are_known(
    algorithm: str, kept: int
) -> None:
    log, project = Log(TWO_PARTITIONS), SimulatedProject(algorithm)  # type: ignore[arg-type]
    task, worker = name_of("t", 1 - kept), name_of("w", kept)
    before = SimulatedMember(log, project)
    before.assign({0, 1})
    before.restore_all()
    before.workers_ready()
    before.tasks_ready(1)
    log.produce(task, worker, 1)
    before.take_labels(kept)
    before.flush()

    instance = SimulatedMember(log, project)
    instance.assign({0, 1})
    instance.restore_all()
    instance.assign({kept})  # before it was ready
    instance.restore_all()
    instance.workers_ready()
    instance.tasks_ready(3)
    crowd = instance.crowd
    (i,), (j,) = crowd.number_tasks([task]), crowd.number_workers([worker])
    assert crowd.engine.has_answered(j, i)
    assert crowd.engine.given(j) == 1


# A stalled instance publishes what it had in flight after another took over its partitions.


def test_votes_that_were_counted_before_they_were_written_change_nothing() -> None:
    votes = [vote_on("t1", 0.5, offset) for offset in (1, 2, 7)]
    expected = LoneTasks(evidence=votes).posterior()
    assert expected["labels"] == 3
    assert expected["sources"] == {"0": 7}
    assert LoneTasks(evidence=[*votes, *votes[:2]]).posterior() == expected
    assert LoneTasks(evidence=[*votes[:2], *votes]).posterior() == expected


# A vote, what a user says of the task, or a new owner: its rules, and whether the budget is spent.
Owner = tuple[StopRules, bool]
HISTORIES = st.lists(VOTES | DESCRIPTIONS | st.tuples(RULES, st.booleans()), max_size=12)
REOPENED: Description = {"task": "t1", "status": "open"}
SPENT = (StopRules(budget=1), True)


@given(HISTORIES, st.lists(st.integers(0, 20), max_size=8))
@example([0.5, SPENT], [0])
@example([0.5, SPENT, REOPENED, SPENT, 0.5], [0, 1, 2])
def test_neither_a_label_nor_a_closure_nor_its_end_is_undone_by_what_was_written_late(
    events: list[float | Description | Owner], late: list[int]
) -> None:
    owner, generation = LoneTasks(), 1
    owner.publish()
    before: list[bytes] = []  # what earlier owners wrote
    for offset, event in enumerate(events):
        if isinstance(event, tuple):
            rules, spent = event
            generation += 1
            before = list(owner.evidence)
            owner = owner.successor(rules, generation, spent=spent)
        else:
            owner.feed([event], offset)
    again = [before[place % len(before)] for place in late if before]
    successor = LoneTasks(evidence=owner.evidence + again, generation=generation + 1)
    assert successor.posteriors() == owner.posteriors()


def answers(offsets: range) -> bytes:
    """Labels of ann, each on a different task."""
    columns = (
        np.ones(len(offsets), "<i2"),
        np.array(offsets),
        np.array(offsets),
        np.full(len(offsets), 0.5),
        np.empty((len(offsets), 0)),
    )
    votes = Votes(
        0, Names.of([f"t{o}" for o in offsets]), Names.of(["ann"] * len(offsets)), *columns
    )
    return encode_answers(Answers([Piece(0, offsets[-1])], [VotesFor(0, encode_votes(votes))], []))


def test_labels_that_two_instances_took_count_once() -> None:
    instance = OneInstance(Log(1))
    for offset in range(12):
        instance.log.produce(f"t{offset}", "ann", 1)
    instance.workers.restore(0, [answers(range(5)), answers(range(8))])  # who had taken more
    instance.workers.restore(0, [answers(range(5, 12))])
    assert instance.workers.partitions[0].taken == 11
    assert instance.worker("ann")["labels"] == 12
    every = np.arange(12)
    assert set(instance.crowd.engine.label_counts(every).tolist()) == {1}
    votes = {instance.crowd.engine.log_odds(task) for task in range(12)}
    assert len(votes) == 1  # all as they were given
