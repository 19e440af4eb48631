"""An instance that was stalled writes what it had under way after another took its place."""

from itertools import combinations

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.records.posteriors import Posterior
from pipeline.records.tasks import Description
from pipeline.records.votes import Answers, VotesByPartition
from pipeline.stages.stop_rules import StopRules
from pipeline.stages.task_stage import TaskStage
from tests.stages.simulated_kafka import Log, OneInstance
from tests.stages.test_tasks import DESCRIPTIONS, RULES, VOTES, feed, new_stage


def vote(offset: int) -> tuple[str, str, int, float, int, int, int]:
    return "t1", f"w{offset}", 1, 0.5, 1, offset, offset


def successive_posteriors() -> list[Posterior]:
    stage = TaskStage(prior_log_odds=0.0)
    stage.open(0)
    posteriors = []
    for source, offset in [(0, 1), (3, 7), (0, 2)]:
        stage.count(0, source, [vote(offset)])
        posteriors.append(stage.posterior(0, "t1"))
    return posteriors


def test_a_posterior_that_was_passed_before_it_was_written_changes_nothing() -> None:
    first, second, third = successive_posteriors()
    stage = TaskStage(prior_log_odds=0.0)
    stage.open(0)
    for posterior in (first, second, third):
        assert stage.restore(0, posterior)
    for late in (first, second):
        assert not stage.restore(0, late)
        assert stage.posterior(0, "t1") == third
    assert stage.restore(0, third)


# A vote, what a user says of the task, or a new owner: its rules, and whether the budget is spent.
HISTORIES = st.lists(VOTES | DESCRIPTIONS | st.tuples(RULES, st.booleans()), max_size=12)
REOPENED: Description = {"task": "t1", "status": "open"}
SPENT = (StopRules(budget=1), True)


def history(events: list[float | Description | tuple[StopRules, bool]]) -> list[Posterior]:
    """What is published of a task, one posterior after the other."""
    stage = new_stage()
    posteriors: list[Posterior] = []
    for offset, event in enumerate(events):
        if isinstance(event, tuple):
            rules, spent = event
            stage = new_stage(rules)
            if posteriors:
                stage.restore(0, posteriors[-1])
            stage.spent = spent
            if stage.settle(0):
                posteriors.append(stage.posterior(0, "t1"))
        else:
            feed(stage, [event], offset)
            posteriors.append(stage.posterior(0, "t1"))
    return posteriors


@given(HISTORIES)
@example([0.5, SPENT])
@example([0.5, SPENT, REOPENED, SPENT, 0.5])
def test_neither_a_label_nor_a_closure_nor_its_end_is_undone_by_what_was_written_late(
    events: list[float | Description | tuple[StopRules, bool]],
) -> None:
    for earlier, later in combinations(history(events), 2):
        stage = new_stage()
        assert stage.restore(0, earlier)
        assert stage.restore(0, later)
        assert not stage.restore(0, earlier)
        assert stage.posterior(0, "t1") == later


def rows(offsets: range) -> Answers:
    votes: VotesByPartition = {0: [(f"t{o}", "ann", 1, 0.5, 1, o, o) for o in offsets]}
    return Answers([(0, offsets[-1])], votes)


def test_labels_that_two_instances_took_count_once() -> None:
    instance = OneInstance(Log(1))
    instance.workers.restore(0, rows(range(5)))
    instance.workers.restore(0, rows(range(8)))  # by the stalled one, which had taken more
    instance.workers.restore(0, rows(range(5, 12)))
    state = instance.workers.partitions[0]
    assert state.taken == 11
    assert state.workers["ann"].labels == 12
    assert {vote for _, vote in state.workers["ann"].answers.values()} == {0.5}
    assert all(len(belief.pending) == 1 for belief in instance.view.beliefs.values())
