"""The stages against the mathematics: what comes out is Algorithm 1 on the labels taken."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.compiled import uncompiled
from sbic.infer.fast_sbic import FastSBIC
from sbic.instance import names as name_table
from sbic.instance.crowd import Changes
from sbic.instance.names import FREE, NameTable
from sbic.instance.requests import Rules
from sbic.instance.taken import Outcome
from sbic.wire.assignments import encode_request
from sbic.wire.columns import COLUMNS, Names
from sbic.wire.dead_letters import Header, Origin
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.seal import KEY_BYTES, NOT_SEALED, Seal, read_key
from sbic.wire.votes import Votes, encode_votes
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import Log, SimulatedRecord
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import PRIOR, SEAL, SimulatedProject

Repeats = Literal["first", "last"]
Triple = tuple[str, str, int | None]
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


def log_odds(instance: OneInstance, task: str) -> float:
    return instance.crowd.engine.log_odds(instance.number_of_task(task))


def agree(instance: OneInstance, engine: FastSBIC[str, str], triples: Sequence[Triple]) -> None:
    for task, posterior in instance.results().items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)
        assert log_odds(instance, task) == posterior["log_odds"]
    for name in {worker for _, worker, _ in triples}:
        worker = instance.worker(name)
        assert worker["labels"] == engine.labels(name)
        assert worker["correct"] == pytest.approx(engine.correct(name), abs=1e-9)
    counted = sum(posterior["labels"] for posterior in instance.results().values())
    assert counted == sum(engine.labels(worker) for worker in {w for _, w, _ in triples})


@given(st.lists(ANYTHING, max_size=40), PARTITIONS, PACE, st.sampled_from(["first", "last"]))
def test_exact_whatever_the_partitions_and_however_late_the_posteriors(
    triples: list[Triple], partitions: int, pace: list[bool], repeats: Repeats
) -> None:
    instance = OneInstance(Log(partitions), SimulatedProject(repeats=repeats))
    for triple, count_now in zip(triples, pace, strict=False):
        instance.label(*triple)
        if count_now:
            instance.count()
    instance.count()
    agree(instance, reference(triples, repeats), triples)


@given(st.lists(ANSWERS, max_size=40), PARTITIONS)
def test_a_label_moves_its_posterior_before_its_vote_comes_and_the_vote_changes_nothing(
    triples: list[Triple], partitions: int
) -> None:
    instance = OneInstance(Log(partitions))
    for triple in triples:
        instance.label(*triple)
    before = {task: posterior["log_odds"] for task, posterior in instance.results().items()}
    assert before == {task: log_odds(instance, task) for task, _, _ in triples}
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
    project = SimulatedProject(repeats="last")
    instance = OneInstance(log, project)
    crash_at = min(crash_at, len(triples) - 1)
    for number, triple in enumerate(triples[: crash_at + 1]):
        partition = log.produce(*triple)
        # votes go out with the answers of the next group: those of the last two may be missing
        missing = number > crash_at - without_votes
        instance.take(partition, log["labels"][partition][-1:], crash_before_votes=missing)
        if pace[number]:
            instance.count()
    if committed:
        instance.commit()
    successor = OneInstance(log, project)
    successor.count(from_the_start=not committed)
    if not committed:  # then all labels come again as well
        for partition, records in enumerate(log["labels"]):
            if records:
                successor.take(partition, records)
    for triple in triples[crash_at + 1 :]:
        successor.label(*triple)
    successor.count(from_the_start=not committed)
    agree(successor, reference(triples, "last"), triples)


def test_a_closed_partition_is_forgotten_and_comes_back_from_its_answers() -> None:
    instance = OneInstance(Log(1))
    for triple in [("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", -1)]:
        instance.label(*triple)
    instance.count()
    before, posteriors = instance.worker("ann"), instance.results()
    instance.assign(set())
    assert (instance.workers.workers, instance.tasks.tasks) == (0, 0)
    assert instance.crowd.engine.labels_here == 0
    assert not instance.crowd.engine.has_answered(0, 0)
    instance.recover()
    after = instance.worker("ann")
    assert after == {**before, "correct": pytest.approx(before["correct"])}
    assert (instance.workers.workers, instance.tasks.tasks) == (2, 2)
    instance.publish_all()
    assert instance.results() == posteriors


def test_bad_labels_are_rejected_with_a_reason_and_the_rest_counts() -> None:
    instance = OneInstance(Log(1))
    records = [
        SimulatedRecord(0, 0, encode_label("t1", "ann", 1)),
        SimulatedRecord(1, 0, b'{"task": "t1", "worker": "bob", "label": 2}'),
        SimulatedRecord(2, 0, None),
        SimulatedRecord(3, 0, encode_label("t1", "cas", 1)),
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
    taken = instance.take(wrong, [SimulatedRecord(0, 0, encode_label("t1", "ann", 1))])
    assert [(f.key, f.partition) for f in taken.forwarded] == [("ann", home)]
    assert taken.votes == []
    assert taken.outcomes[Outcome.FORWARDED] == 1


def test_a_repeat_changes_nothing_and_yet_its_sender_sees_it_dealt_with() -> None:
    instance = OneInstance(Log(1))
    instance.label("t1", "ann", 1)
    instance.count()
    first = instance.results()["t1"]
    instance.label("t1", "ann", -1)
    instance.count()
    assert instance.results()["t1"] == {**first, "sources": {"0": 1}}


def test_votes_of_workers_elsewhere_count_as_they_are() -> None:
    instance = SimulatedMember(Log(2))
    mine, elsewhere = partition_of(b"t1", 2), partition_of(b"ann", 2)
    assert mine != elsewhere
    instance.assign({mine})
    votes = one_vote("t1", "ann", source=elsewhere, vote=0.25)
    instance.log.produce("t1", "ann", 1)
    counted = instance.tasks.count(mine, [votes])
    assert (counted.votes, counted.new) == (1, [0])
    assert instance.crowd.moved().tolist() == [0]
    assert instance.crowd.engine.log_odds(0) == pytest.approx(PRIOR.log_odds + 0.25)
    again = instance.tasks.count(mine, [votes])
    assert (again.votes, again.new) == (1, [])
    assert instance.crowd.moved().tolist() == []
    assert instance.crowd.engine.log_odds(0) == pytest.approx(PRIOR.log_odds + 0.25)


def one_vote(task: str, worker: str, source: int, vote: float) -> bytes:
    numbers = np.array([1], "<i2"), np.array([0]), np.array([7]), np.array([vote])
    return encode_votes(
        Votes(source, Names.of([task]), Names.of([worker]), *numbers, counts=np.empty((1, 0)))
    )


def test_records_of_others_on_every_internal_topic_are_refused_and_change_nothing() -> None:
    instance = OneInstance(Log(2))
    home, there = partition_of(b"t1", 2), instance.log.produce("t1", "ann", 1)
    value = one_vote("t1", "ann", there, vote=9.0)
    sealed = SimulatedRecord(
        0, 0, value, None, [SEAL.header("votes", home, value, COLUMNS)], "votes", home
    )
    forged = [
        replace(sealed, headers=()),
        replace(sealed, headers=[SEAL.header("votes", home, value, b"columns 3")]),
        replace(sealed, partition=1 - home),  # a copy of a genuine record elsewhere
        replace(sealed, value=one_vote("t1", "ann", there, vote=8.0)),
        replace(sealed, headers=[Seal(b"another key").header("votes", home, value, COLUMNS)]),
    ]
    pure = instance.instance
    assert pure.count(home, [*forged, sealed]).new == [0]
    assert [rejected.record for rejected in pure.filling.rejected] == forged
    for restore in (pure.restore_answers, pure.restore_evidence):
        assert [record for record, _ in restore(home, forged)] == forged
    assert all(pure.hear(home, record) is NOT_SEALED for record in forged)
    assert instance.tasks.tasks == 0  # ann is a worker of this instance: her label is yet to come


# A label that is forwarded twice counts once; a forged origin affects no other label.


LAST = SimulatedProject(repeats="last")
FROM = Origin("labels", 0, 42)


def sealed(topic: str, value: bytes, origin: Origin) -> list[Header]:
    """The headers of a record that an instance has forwarded to partition 0."""
    return [SEAL.origin_header(topic, 0, value, origin)]


def forward(log: Log, label: int, origin: Origin | None = None) -> SimulatedRecord:
    """A label of ann on t1, forwarded from elsewhere if it has an origin."""
    offset = len(log["labels"][0])
    value = encode_label("t1", "ann", label)
    headers = sealed("labels", value, origin) if origin else []
    record = SimulatedRecord(offset, offset, value, b"ann", headers)
    log["labels"][0].append(record)
    return record


def test_a_label_forwarded_again_does_not_replace_a_later_one_even_after_a_crash() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    instance.take(0, [forward(log, -1)])
    again = OneInstance(log, LAST)
    taken = again.take(0, [forward(log, 1, FROM)])
    assert taken.outcomes[Outcome.REPEATED] == 1
    again.count()
    posterior = again.results()["t1"]
    assert (posterior["labels"], posterior["prediction"]) == (1, -1)


def test_a_label_from_the_same_place_with_another_content_counts() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    taken = instance.take(0, [forward(log, -1, FROM)])
    assert taken.outcomes[Outcome.COUNTED] == 1
    assert instance.results()["t1"]["prediction"] == -1


def test_a_label_with_a_forged_origin_is_one_like_any_other() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    instance.take(0, [forward(log, -1)])
    again = forward(log, 1)
    again.headers = [Seal(b"another key").origin_header("labels", 0, again.value, FROM)]
    assert instance.take(0, [again]).outcomes[Outcome.COUNTED] == 1


def test_a_label_that_was_forwarded_before_the_key_changed_still_counts_once() -> None:
    record = forward(Log(1), 1, FROM)
    assert Seal(b"new", [b"newer", SEAL.key]).origin(record, partitions=1) == FROM
    assert Seal(b"new", [b"newer"]).origin(record, partitions=1) is None


def test_a_request_forwarded_again_is_answered_once_even_after_a_crash() -> None:
    assigning = AssigningInstance(Rules(), partitions=1)
    assigning.describe([{"task": f"t{number}"} for number in range(5)])
    headers = sealed("requests", encode_request("ann"), Origin("requests", 0, 42))
    [given] = assigning.ask("ann", headers=headers)
    assert given["id"] == "0-42-0"
    assert assigning.ask("ann", headers=headers) == []
    later = assigning.successor(Rules())
    assert later.ask("ann", headers=headers) == []
    assert len(later.ask("bob", headers=headers)) == 1  # they are ann's


def test_an_origin_without_a_seal_is_not_believed() -> None:
    assigning = AssigningInstance(Rules(), partitions=1)
    assigning.describe([{"task": "t1"}])
    [given] = assigning.ask("ann", headers=[("sbic.origin", b"requests/0/42")])
    assert given["id"] == "0-0-0"


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64, 65, 100, 100_000])
def test_only_a_key_of_the_right_size_is_one(size: int) -> None:
    assert read_key(bytes(size).hex().encode()) is None


TEXTS = st.none() | st.binary(max_size=80)


@given(
    value=TEXTS | st.binary().map(lambda key: key.hex().encode()),
    headers=st.lists(st.tuples(st.sampled_from(["sbic.seal", "sbic.origin", "x"]), TEXTS)),
)
def test_nothing_on_the_topic_of_the_seal_or_in_headers_raises(
    value: bytes | None, headers: list[Header]
) -> None:
    key = read_key(value)
    seal = Seal(bytes(KEY_BYTES), [key] if key is not None else [])
    record = SimulatedRecord(0, 0, value, None, headers)
    assert seal.origin(record, partitions=1) is None
    assert not seal.is_on(record)


# Changed numbers: each once, in the order of their first change, however they come and go.


numbers = st.lists(st.integers(0, 200), max_size=40)
steps = st.lists(st.one_of(numbers, st.none() | st.integers(0, 50)), max_size=30)


@given(steps)
def test_changes_are_an_ordered_set(steps: list[list[int] | int | None]) -> None:
    changes, expected = Changes(), list[int]()
    for step in steps:
        if isinstance(step, list):
            changes.add(step)
            expected += [number for number in dict.fromkeys(step) if number not in expected]
        else:
            most = len(expected) if step is None else step
            assert changes.take(step).tolist() == expected[:most]
            expected = expected[most:]
        assert len(changes) == len(expected)
        assert [number for number in range(201) if number in changes] == sorted(expected)


# Names get numbers in the order of their first appearance, as a dictionary would give them.


NAMES = st.lists(st.text(min_size=1, max_size=9) | st.sampled_from(["t1", "t2", "é" * 128]))


@given(st.lists(NAMES))
def test_names_are_numbered_as_a_dictionary_would(batches: list[list[str]]) -> None:
    table, expected = NameTable(), dict[str, int]()
    for names in batches:
        assert table.find(Names.of(names)).tolist() == [expected.get(name, FREE) for name in names]
        numbers = [expected.setdefault(name, len(expected)) for name in names]
        assert table.number(Names.of(names)).tolist() == numbers
        assert list(table.names_of(np.array(numbers, np.int64))) == names
    assert table.names == list(expected)
    assert [table.known(name) for name in expected] == list(expected.values())


def test_many_names_are_found_again() -> None:
    names = [f"task-{number}" for number in range(20_000)]
    table = NameTable()
    for start in range(0, len(names), 700):
        table.number(Names.of(names[start : start + 700]))
    assert table.find(Names.of(names[::-1])).tolist() == list(range(len(names)))[::-1]
    assert table.known("task-20000") is None


def test_two_tables_hash_with_different_keys() -> None:
    one, other = NameTable(), NameTable()
    assert one._index.key.tolist() != other._index.key.tolist()


@given(st.text(max_size=40).map(str.encode), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_hash_is_the_same_without_numba(text: bytes, one: int, other: int) -> None:
    arguments = np.frombuffer(text, np.uint8), 0, len(text), np.array([one, other])
    found = uncompiled(name_table._hash)(*arguments)
    assert name_table._hash(*arguments) == found
    assert 0 <= found < 2**32
