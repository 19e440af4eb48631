"""An instance that was stalled writes what it had under way after another took its place."""

from pipeline.records.posteriors import Posterior
from pipeline.records.votes import Answers, VotesByPartition
from pipeline.stages.task_stage import TaskStage
from tests.stages.simulated_kafka import Log, OneInstance


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
