"""What surveys find of all tasks: the set that a share of errors closes, and what gold says."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import loads

from sbic.engine.engine import LEAST_TASKS, Engine
from sbic.engine.labels import Floats
from sbic.engine.outside import Moments, prediction_powered
from sbic.engine.state import FIRST_MOVED, MOVED
from sbic.instance import instance
from sbic.instance.crowd import OPEN, REASONS
from sbic.instance.survey import EDGES, HALF, candidates_of, enough_for
from sbic.instance.tasks import CONFIDENT, EXHAUSTED, StopRules
from sbic.wire.estimates import Findings, encode_estimates, parse_report
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject

SURE = st.lists(st.tuples(st.floats(0.02, 1), st.booleans()), min_size=1, max_size=30)


@given(SURE, st.floats(0.001, 0.4))
def test_the_set_that_a_share_of_errors_closes_is_the_largest(
    tasks: list[tuple[float, bool]], error: float
) -> None:
    sure, is_closed = (np.array(column) for column in zip(*tasks, strict=True))
    enough = enough_for(error, candidates_of(sure, is_closed))

    def expected(row: int) -> float | None:
        stays = EDGES[max(row - HALF, 0)]
        found = sure[np.where(is_closed, (sure >= stays) | (row <= HALF), sure >= EDGES[row])]
        return float((1 - found).mean()) if len(found) else None

    rows = np.maximum(np.searchsorted(EDGES, sure, side="right") - 1, 0)
    shares = {row: expected(row) for row in rows.tolist()}
    good = [row for row, share in shares.items() if share is not None and share <= error + 1e-12]
    assert enough == (EDGES[min(good)] if good else np.inf)


def survey(member: SimulatedMember) -> Findings:
    """Survey the own tasks, and tell the others."""
    found = member.survey()
    member.flush()
    return found


Triples = list[tuple[str, str, int]]


def truth_of(tasks: int, seed: int = 3) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.random.default_rng(seed).integers(0, 2, tasks)


def crowd(tasks: int, judges: int, *, repeats: float, first: int = 0, seed: int = 3) -> Triples:
    """Labels of judges who so often repeat what most make of a task, which is often wrong."""
    truth, rng = truth_of(tasks, seed), np.random.default_rng((seed, 1))
    common = np.where(rng.random(tasks) < 0.7, truth, rng.integers(0, 2, tasks))
    labels = []
    for judge in range(first, first + judges):
        rng = np.random.default_rng((seed, 2, judge))
        knows = rng.random(tasks) < 0.5 + 0.07 * min(judge, 5)
        own = np.where(knows, truth, rng.integers(0, 2, tasks))
        says = np.where(rng.random(tasks) < repeats, common, own)
        labels += [(f"t{i}", f"w{judge}", 2 * int(x) - 1) for i, x in enumerate(says)]
    return labels


def cluster_of(size: int, log: Log, project: SimulatedProject) -> SimulatedCluster:
    cluster = SimulatedCluster(log, project)
    members = [SimulatedMember(log, project) for _ in range(size)]
    cluster.rebalance(members, [number % size for number in range(log.partitions)])
    return cluster


def closed(log: Log, reason: str) -> dict[str, float]:
    """The tasks that are closed for this reason, with their confidence."""
    return {
        task: max(found["probability"], 1 - found["probability"])
        for task, found in log.posteriors().items()
        if found.get("reason") == reason
    }


def confidences(log: Log) -> Floats:
    found = np.array([each["probability"] for each in log.posteriors().values()])
    sure: Floats = np.maximum(found, 1 - found)
    return sure


@pytest.mark.parametrize("size", [1, 3])
def test_a_share_of_errors_closes_the_largest_set_over_all_instances(size: int) -> None:
    error, log = 0.02, Log(6)
    cluster = cluster_of(size, log, SimulatedProject("settled", rules=StopRules(error=error)))
    for triple in crowd(120, 5, repeats=0.0):
        log.produce(*triple)
    cluster.settle()
    assert not closed(log, "confident"), "nothing is closed before all tasks are known"
    for _ in range(3):
        for member in cluster.members:
            survey(member)
        cluster.settle()
    by_rule = closed(log, "confident")
    sure = np.sort(confidences(log))[::-1]
    largest = np.flatnonzero(np.cumsum(1 - sure) <= error * np.arange(1, len(sure) + 1))[-1] + 1
    assert 1 - np.mean(list(by_rule.values())) <= error
    assert 30 < len(by_rule) <= largest < 120
    # all of a row of the table, or none
    lowest = min(by_rule.values())
    assert (sure >= lowest).sum() == len(by_rule)
    assert sure[len(by_rule)] > EDGES[np.searchsorted(EDGES, sure[largest - 1]) - 2]
    if size > 1:  # one is killed while it surveys; the others own its tasks
        cluster.members[0].survey()
        cluster.rebalance(cluster.members[1:], [0, 1, 1, 0, 0, 1])
        cluster.settle()
        for member in cluster.members * 2:
            survey(member)
        cluster.settle()
        now = closed(log, "confident")
        assert by_rule.keys() <= now.keys()
        assert 1 - np.mean(list(now.values())) <= error
        assert len(now) <= largest


def test_the_findings_of_all_instances_count_each_task_once_whoever_owns_it() -> None:
    log, project = Log(6), SimulatedProject("settled", rules=StopRules(error=0.05))
    cluster = cluster_of(3, log, project)
    for triple in crowd(60, 5, repeats=0.3):
        log.produce(*triple)
    for i in range(12):
        log.describe({"task": f"t{i}", "gold": 1 if truth_of(60)[i] else -1})
    cluster.settle()
    alone = cluster_of(1, log_of_the_same(log), project)
    alone.settle()
    expected = survey(alone.members[0])
    assert expected.gold == expected.shares.golds == 12
    owners = [[0, 1, 2, 0, 1, 2], [2, 2, 2, 1, 1, 0], [1, 1, 1, 1, 0, 0]]
    for owned, members in zip(owners, (3, 3, 2), strict=True):
        cluster.rebalance(cluster.members[:members], owned)
        cluster.settle()
        for member in cluster.members:
            survey(member)
        cluster.settle()
        for member in cluster.members:
            found = member.exchange.all_findings()
            assert found is not None
            assert (found.gold, found.wrong) == (expected.gold, expected.wrong)
            assert found.shares.tasks == expected.shares.tasks == 60
            assert found.expected == pytest.approx(expected.expected, abs=1e-6)
            shares = prediction_powered(found.shares)
            assert shares == pytest.approx(prediction_powered(expected.shares), abs=1e-6)
            assert found.candidates[:, [0, 2]].sum() == 48


def log_of_the_same(log: Log) -> Log:
    """A log with the same labels and descriptions, of which nothing is read yet."""
    fresh = Log(log.partitions)
    for topic in ("labels", "tasks"):
        fresh.topics[topic] = log.topics[topic]
    return fresh


def test_what_is_found_comes_back_from_its_record() -> None:
    rng = np.random.default_rng(1)
    shares = Moments.of_shares(rng.dirichlet((1, 1, 1), 9), np.array([0, 2, -1] * 3))
    table = candidates_of(rng.random(40), rng.random(40) < 0.3)
    found = Findings(0.25, 6, 2, 1.5, shares, table)
    back = parse_report(encode_estimates(7, found), classes=3)
    assert isinstance(back, Findings)
    assert back[:4] == found[:4]
    assert np.array_equal(back.candidates, table)
    assert (back.shares.tasks, back.shares.golds) == (9, 6)
    assert np.array_equal(back.shares.every, shares.every)
    assert np.array_equal(back.shares.known, shares.known)
    assert parse_report(encode_estimates(7, found), classes=4) is None


def test_what_gold_moves_is_published_a_part_at_a_time_and_new_labels_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once, log = 7, Log(1)
    cluster = cluster_of(1, log, SimulatedProject("settled"))
    [member] = cluster.members
    for triple in crowd(60, 6, repeats=0.45):
        log.produce(*triple)
    cluster.settle()
    before = log.posteriors()
    monkeypatch.setattr(instance, "TASKS_AT_ONCE", at_once)
    for i in range(50, 60):
        log.describe({"task": f"t{i}", "gold": -1})
    member.heed(0)
    while member.refresh():
        pass
    assert member.crowd.engine.tasks_moved == 60
    state = member.crowd.engine.state
    order = [int(state.whole[FIRST_MOVED])]
    while (following := int(state.task[order[-1], MOVED])) >= 0:
        order.append(following)
    far_back = next(i for i in reversed(order) if i not in member.crowd.touched)
    last = member.crowd.tasks.names[far_back]
    log.produce(last, "new", 1)
    member.take_labels(0)
    published = len(log["posteriors"][0])
    member.publish()
    member.publish()
    first = [loads(record.value or b"")["task"] for record in log["posteriors"][0][published:]]
    assert last in first  # not the 50th
    assert len(first) <= 4 * at_once
    cluster.settle()
    now = log.posteriors()
    engine = member.crowd.engine
    moved = [task for task in now if now[task]["probability"] != before[task]["probability"]]
    assert len(moved) == 60
    for task, found in now.items():
        known = engine.beliefs(member.crowd.number_tasks([task]))[0, 1]
        assert found["probability"] == pytest.approx(known, abs=1e-8)


def test_gold_priors_and_labels_that_came_and_went_leave_no_trace_where_labels_depend() -> None:
    log, plain = Log(6), Log(6)
    project = SimulatedProject("settled", repeats="last")
    cluster, alone = cluster_of(3, log, project), cluster_of(1, plain, project)
    triples = crowd(90, 8, repeats=0.45)
    for number, (task, worker, label) in enumerate(triples):
        if number % 5 == 0:
            log.produce(task, worker, -label)  # replaced below
        if number % 7 == 0:
            log.produce(task, "gone", label)
        log.produce(task, worker, label)
        plain.produce(task, worker, label)
    for i in range(0, 90, 4):
        # true, as for false gold there is a second fixed point, at which all workers are wrong
        is_one = truth_of(90)[i] == 1
        log.describe(
            {"task": f"t{i}", "gold": 1 if is_one else -1, "prior": 0.8 if is_one else 0.2}
        )
    cluster.settle()
    # one is killed in the middle of a publication, and others own its partitions
    for task in sorted({task for task, _, _ in triples}):
        log.produce(task, "gone", None)
    killed = cluster.members[0]
    for partition in killed.partitions:
        killed.take_labels(partition, 5)
    killed.publish(lambda write: write.topic != "votes")
    cluster.rebalance(cluster.members[1:], [0, 1, 0, 1, 1, 0])
    for i in range(0, 90, 4):
        truth: Literal[1, -1] = 1 if truth_of(90)[i] else -1
        kept = truth if i % 8 == 0 else None
        log.describe({"task": f"t{i}", "gold": kept, "prior": None})
        if kept is not None:
            plain.describe({"task": f"t{i}", "gold": kept})
    for running in (cluster, alone):
        running.settle()
    owners = [member.crowd.engine.outside for member in (*cluster.members, *alone.members)]
    assert owners[-1].dependence > 0.1, "or labels show no dependence, and this shows less"
    for outside in owners[:-1]:
        assert outside.dependence == pytest.approx(owners[-1].dependence, abs=1e-5)
        assert outside.scale == pytest.approx(owners[-1].scale, abs=1e-5)
    found, expected = log.posteriors(), plain.posteriors()
    assert found.keys() == expected.keys()
    for task in expected:
        for field in ("probability", "effective_votes"):
            assert found[task][field] == pytest.approx(expected[task][field], abs=1e-4)
        assert found[task]["labels"] == expected[task]["labels"] == 8


TASKS = LEAST_TASKS + 100
JUDGES, LEVEL = 12, 0.985


def test_a_task_that_no_more_labels_of_the_kind_could_decide_is_exhausted() -> None:
    log = Log(2)
    one = OneInstance(log, SimulatedProject("settled", rules=StopRules(confidence=LEVEL)))
    for triple in crowd(TASKS, JUDGES, repeats=0.45):
        one.label(*triple)
    one.count()
    while one.refresh():
        pass
    one.flush()
    rho = one.crowd.engine.outside.dependence
    assert rho > 0.2, "or labels show no dependence, and this shows nothing"
    exhausted = closed(log, "exhausted")
    assert len(exhausted) > 100
    assert max(exhausted.values()) < LEVEL
    # they stay closed, and twice as many labels of the kind would not have decided them
    for triple in crowd(TASKS, 2 * JUDGES, repeats=0.45, first=JUDGES):
        one.label(*triple)
    one.count()
    while one.refresh():
        pass
    one.flush()
    assert exhausted.keys() <= closed(log, "exhausted").keys()
    now = {
        task: max(p, 1 - p) for task in exhausted for p in [log.posteriors()[task]["probability"]]
    }
    assert np.mean([sure >= LEVEL for sure in now.values()]) <= 0.025


def test_an_exhausted_task_reopens_where_less_is_required_and_is_decided_by_that() -> None:
    log = Log(2)
    one = OneInstance(log, SimulatedProject("settled", rules=StopRules(confidence=LEVEL)))
    for triple in crowd(TASKS, JUDGES, repeats=0.45):
        one.label(*triple)
    one.count()
    while one.refresh():
        pass
    one.flush()
    exhausted = closed(log, "exhausted")
    one.instance.follow(StopRules())
    one.flush()
    assert closed(log, "exhausted") == exhausted, "what a rule has closed stays closed without it"
    one.instance.follow(StopRules(confidence=0.75))
    one.flush()
    decided = {task for task, sure in exhausted.items() if sure >= 0.75}
    assert len(decided) > 100
    assert decided <= closed(log, "confident").keys()


@pytest.mark.parametrize(("tasks", "repeats"), [(LEAST_TASKS - 10, 0.45), (TASKS, 0.0)])
def test_nothing_is_exhausted_while_little_is_known_or_where_labels_are_independent(
    tasks: int, repeats: float
) -> None:
    log = Log(2)
    one = OneInstance(log, SimulatedProject("settled", rules=StopRules(confidence=LEVEL)))
    for triple in crowd(tasks, JUDGES, repeats=repeats):
        one.label(*triple)
    one.count()
    while one.refresh():
        pass
    one.flush()
    assert not closed(log, "exhausted")


def test_a_task_is_exhausted_only_when_its_votes_are_worth_most_of_what_they_can_be() -> None:
    engine = Engine("settled")
    labels = crowd(TASKS, JUDGES, repeats=0.45)
    engine.take(
        [int(task[1:]) for task, _, _ in labels],
        [int(worker[1:]) for _, worker, _ in labels],
        [(x + 1) // 2 for _, _, x in labels],
    )
    engine.settle(1e-9)
    rho = engine.outside.dependence
    known = np.arange(TASKS)
    assert (engine.outlook(known) < 1).all()
    few = TASKS
    engine.take([few], [0], [1])
    assert 1 * rho < 4 * (1 - rho)
    assert engine.outlook([few]).tolist() == [1.0]
    # unanimous labels tend to more than divided ones
    now, hope = engine.beliefs(known).max(axis=1), engine.outlook(known)
    assert hope[now.argmax()] > hope[now.argmin()]


def test_the_reasons_of_rules_that_need_all_tasks() -> None:
    rules = StopRules(confidence=0.99, error=0.05)
    assert rules.required(0.8) == 0.8
    assert rules.required() == 0.99
    sure, labels = np.array([0.995, 0.85, 0.7]), np.array([3, 3, 3])
    assert rules.reasons(sure, labels, 0.8).tolist() == [CONFIDENT, CONFIDENT, OPEN]
    assert StopRules(error=0.05).is_doubtful(sure).tolist() == [False] * 3
    assert REASONS[EXHAUSTED] == "exhausted"
