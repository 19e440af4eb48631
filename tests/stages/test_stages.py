"""The stages against the mathematics: what comes out is Algorithm 1 on the labels taken."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inference.fast_sbic import FastSBIC
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.stages.worker_stage import Outcome
from tests.stages.simulated_kafka import PRIOR, Log, OneInstance, Record, Triple

TASKS = st.sampled_from(["t1", "t2", "t3", "t4", "t5"])
WORKERS = st.sampled_from(["ann", "bob", "cas", "dee", "eve", "fay"])
ANSWERS = st.tuples(TASKS, WORKERS, st.sampled_from([1, -1]))
ANYTHING = st.tuples(TASKS, WORKERS, st.sampled_from([1, -1, 1, -1, 0, None]))
PARTITIONS = st.sampled_from([1, 3, 8])
# After each label: let the task agent count what waits (1), or not yet (0).
PACE = st.lists(st.booleans(), min_size=40, max_size=40)


def reference(triples: Sequence[Triple], repeats: str = "first") -> FastSBIC[str, str]:
    """What Algorithm 1 makes of the labels, repeats and retractions included."""
    engine: FastSBIC[str, str] = FastSBIC(PRIOR)
    given: dict[tuple[str, str], int] = {}
    for task, worker, label in triples:
        known = given.get((task, worker))
        if label == 0 or (label is None and known is None):
            continue
        if known is not None:
            if label is not None and (repeats == "first" or label == known):
                continue
            engine.revert(task, worker)
            del given[task, worker]
        if label is not None:
            engine.observe(task, worker, label)
            given[task, worker] = label
    return engine


def agree(instance: OneInstance, engine: FastSBIC[str, str], triples: Sequence[Triple]) -> None:
    for task, posterior in instance.results().items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)
        assert instance.view[task].log_odds == posterior["log_odds"]
        assert instance.view[task].pending == []
    for state in instance.workers.partitions.values():
        for worker in state.workers.values():
            assert worker.labels == engine.labels(worker.name)
            assert worker.correct == pytest.approx(engine.correct(worker.name), abs=1e-9)
    counted = sum(posterior["labels"] for posterior in instance.results().values())
    assert counted == sum(engine.labels(worker) for worker in {w for _, w, _ in triples})


@given(st.lists(ANYTHING, max_size=40), PARTITIONS, PACE, st.sampled_from(["first", "last"]))
def test_exact_whatever_the_partitions_and_however_late_the_posteriors(
    triples: list[Triple], partitions: int, pace: list[bool], repeats: str
) -> None:
    log = Log(partitions)
    instance = OneInstance(log, repeats)
    for triple, count_now in zip(triples, pace, strict=False):
        partition = log.produce(*triple)
        instance.take(partition, log.labels[partition][-1:])
        if count_now:
            instance.count()
    instance.count()
    agree(instance, reference(triples, repeats), triples)


@given(st.lists(ANSWERS, max_size=40), PARTITIONS)
def test_the_log_odds_in_the_view_are_those_of_the_task_to_the_last_bit(
    triples: list[Triple], partitions: int
) -> None:
    log = Log(partitions)
    instance = OneInstance(log)
    for triple in triples:
        partition = log.produce(*triple)
        instance.take(partition, log.labels[partition][-1:])
    before = {task: belief.log_odds for task, belief in instance.view.beliefs.items()}
    instance.count()
    assert {t: p["log_odds"] for t, p in instance.results().items()} == before


@given(
    st.lists(ANYTHING, min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(0, 2),
    st.booleans(),
    PACE,
)
def test_after_a_crash_anywhere_nothing_is_lost_and_nothing_counts_twice(
    triples: list[Triple], crash_at: int, without_votes: int, committed: bool, pace: list[bool]
) -> None:
    log = Log(3)
    instance = OneInstance(log, "last")
    crash_at = min(crash_at, len(triples) - 1)
    for number, triple in enumerate(triples[: crash_at + 1]):
        partition = log.produce(*triple)
        # votes go out with the answers of the next group: those of the last two may be missing
        missing = number > crash_at - without_votes
        instance.take(partition, log.labels[partition][-1:], crash_before_votes=missing)
        if pace[number]:
            instance.count()
    successor = OneInstance(log, "last")
    successor.recover()
    successor.count(from_the_start=not committed)
    if not committed:  # then all labels come again as well
        for partition, records in enumerate(log.labels):
            if records:
                successor.take(partition, records)
    for triple in triples[crash_at + 1 :]:
        partition = log.produce(*triple)
        successor.take(partition, log.labels[partition][-1:])
    successor.count(from_the_start=not committed)
    agree(successor, reference(triples, "last"), triples)


def test_a_closed_partition_is_forgotten_and_comes_back_from_its_answers() -> None:
    log = Log(1)
    instance = OneInstance(log)
    for triple in [("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", -1)]:
        instance.take(log.produce(*triple), log.labels[0][-1:])
    instance.count()
    before = instance.workers.partitions[0].workers["ann"].correct
    instance.workers.close(0)
    assert instance.workers.workers == 0
    assert instance.view["t1"].crowd == {}
    instance.workers.open(0)
    instance.recover()
    assert instance.workers.partitions[0].workers["ann"].correct == pytest.approx(before)


def test_bad_labels_are_rejected_with_a_reason_and_the_rest_counts() -> None:
    instance = OneInstance(Log(1))
    records = [
        Record(0, 0, encode_label("t1", "ann", 1)),
        Record(1, 0, b'{"task": "t1", "worker": "bob", "label": 2}'),
        Record(2, 0, None),
        Record(3, 0, encode_label("t1", "cas", 1)),
    ]
    taken = instance.take(0, records)
    assert [(rejected.record.offset, rejected.why.reason) for rejected in taken.rejected] == [
        (1, "bad-label"),
        (2, "null-value"),
    ]
    assert taken.outcomes[Outcome.COUNTED] == 2
    assert taken.outcomes[Outcome.REJECTED] == 2


def test_a_label_in_the_wrong_partition_is_sent_to_the_right_one() -> None:
    instance = OneInstance(Log(8))
    home = partition_of(b"ann", 8)
    wrong = (home + 1) % 8
    taken = instance.take(wrong, [Record(0, 0, encode_label("t1", "ann", 1))])
    assert [(f.worker, f.partition) for f in taken.forwarded] == [("ann", home)]
    assert taken.votes == {}
    assert taken.outcomes[Outcome.FORWARDED] == 1


def test_a_repeat_changes_nothing_and_yet_its_sender_sees_it_dealt_with() -> None:
    log = Log(1)
    instance = OneInstance(log)
    for label in (1, -1):
        instance.take(log.produce("t1", "ann", label), log.labels[0][-1:])
    instance.count()
    first, second = log.posteriors[0][0], log.posteriors[0][-1]
    assert second == {**first, "sources": {"0": 1}}


def test_other_instances_votes_arrive_with_their_posteriors() -> None:
    log = Log(1)
    instance = OneInstance(log)
    instance.take(log.produce("t1", "ann", 1), log.labels[0][-1:])
    own = instance.view["t1"].log_odds
    late = instance.tasks
    late.count(0, source=7, votes=[("t1", "zoe", 1, 0.25, 1, 99, 0)])
    instance.view.learn(late.posterior(0, "t1"), offset=0)
    assert instance.view["t1"].log_odds == pytest.approx(own + 0.25)
    assert len(instance.view["t1"].pending) == 1
