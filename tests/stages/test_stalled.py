"""A stalled instance publishes what it had in flight after another took over its partitions."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sbic.instance.tasks import StopRules
from sbic.wire.changelogs import Answers, Piece, VotesFor, encode_answers
from sbic.wire.columns import Names
from sbic.wire.tasks import Description
from sbic.wire.votes import Votes, encode_votes
from tests.stages.lone_tasks import LoneTasks, vote_on
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.test_tasks import DESCRIPTIONS, RULES, VOTES


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
