"""Who gets which task: the policy's choice among what is new to the worker, and once each."""

import random
from math import log
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.infer.fast_sbic import FastSBIC
from sbic.instance.requests import AssignmentStage, Rules, policy_of
from sbic.policy.policy import AnswerSet
from sbic.wire.assignments import encode_request
from sbic.wire.partitions import partition_of
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import SimulatedRecord
from tests.stages.simulated.project import PRIOR

Name = Literal["uncertainty", "uniform"]
POLICIES: list[Name] = ["uncertainty", "uniform"]
LEASE = 1000
WORKERS = ["ann", "bob", "cas", "dee"]


def registered(assigning: AssigningInstance, tasks: int) -> AssigningInstance:
    assigning.describe({"task": f"t{number}"} for number in range(tasks))
    return assigning


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("partitions", [1, 8])
def test_one_at_a_time_is_the_simulation_in_memory(name: Name, partitions: int) -> None:
    rng = random.Random(partitions)
    assigning = registered(AssigningInstance(Rules(policy=name, seed=7), partitions=partitions), 60)
    tasks = [f"t{number}" for number in range(60)]
    policy = policy_of(name, tasks, 7, PRIOR)
    engine: FastSBIC[str, str] = FastSBIC(PRIOR)
    answered = {f"w{number}": AnswerSet() for number in range(40)}
    labels = [0] * 60
    for number in range(60):
        policy.update(number, 0, abs(PRIOR.log_odds))
    for _ in range(600):
        worker = rng.choice(list(answered))
        label = rng.choice([1, 1, -1])
        expected = policy.choose(answered[worker])
        [assignment] = assigning.ask(worker)
        assert assignment["task"] == (None if expected is None else tasks[expected])
        if expected is None:
            continue
        assigning.hand_in(worker, tasks[expected], label)
        engine.observe(tasks[expected], worker, label)
        answered[worker].add(expected)
        labels[expected] += 1
        policy.update(expected, labels[expected], abs(engine.log_odds(tasks[expected])))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ask", "ask", "ask", "answer", "skip", "retract", "wait", "crash", "replay"]
        ),
        st.sampled_from(WORKERS),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(st.sampled_from(POLICIES), STEPS)
def test_no_worker_gets_a_task_that_they_answered_skipped_or_hold(
    name: Name, steps: list[tuple[str, str, int]]
) -> None:
    rules = Rules(policy=name, seed=1, lease_ms=LEASE)
    assigning = registered(AssigningInstance(rules), 5)
    skipped: set[tuple[str, str]] = set()
    held: dict[tuple[str, str], int] = {}  # until when
    had: set[tuple[str, str]] = set()
    answered: set[tuple[str, str]] = set()
    for verb, worker, number in steps:
        if verb == "ask":
            for got in assigning.ask(worker, count=number % 3 + 1):
                pair = worker, got["task"]
                if got["task"] is None:
                    assert got["reason"] == "all-answered"
                    barred = answered | skipped | had
                    assert all((worker, f"t{task}") in barred for task in range(5))
                else:
                    assert pair not in answered | skipped | had
                    had.add(pair)
                    assert got["expires_at"] == assigning.now + LEASE
                    held[pair] = got["expires_at"]
        elif verb in ("answer", "skip"):
            pair = worker, f"t{number % 5}"
            ends = assigning.hand_in(*pair, 0 if verb == "skip" else 1)
            assert len(ends) == (pair in held)
            (answered if verb == "answer" else skipped).add(pair)
            held.pop(pair, None)
        elif verb == "retract":
            pair = worker, f"t{number % 5}"
            assigning.hand_in(*pair, None)
            if pair in answered:
                answered.discard(pair)
                had.discard(pair)
        elif verb == "wait":
            assigning.now += 100 * number
            held = {pair: end for pair, end in held.items() if end > assigning.now}
        elif verb == "crash":
            assigning = assigning.successor(rules)
        else:
            for partition, requests in enumerate(assigning.requests):
                if requests:
                    assert assigning.answer(partition, requests) == []
        assigning.stage.refresh(assigning.now)
        for task in range(5):
            expected = sum(t == f"t{task}" for _, t in held)
            assert assigning.leases.in_flight(f"t{task}") == expected


@given(
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.sampled_from(WORKERS), st.integers(0, 9), st.sampled_from([1, -1, 0]))),
    st.sets(st.integers(0, 9), max_size=4),
)
def test_one_request_for_many_tasks_gets_what_many_requests_get(
    name: Name, answers: list[tuple[str, int, int]], gold: set[int]
) -> None:
    got = []
    for counts in ([12], [1] * 12, [5, 7]):
        assigning = registered(AssigningInstance(Rules(policy=name, seed=1, gold_rate=0.3)), 10)
        assigning.describe({"task": f"t{number}", "gold": 1} for number in gold)
        for worker, number, label in answers:
            assigning.hand_in(worker, f"t{number}", label)
        given = [
            assignment["task"] for count in counts for assignment in assigning.ask("ann", count)
        ]
        got.append([task for task in given if task is not None])
    assert got[0] == got[1] == got[2]


@pytest.mark.parametrize("name", POLICIES)
def test_a_hundred_workers_at_the_same_moment_get_a_hundred_sensible_tasks(name: Name) -> None:
    assigning = registered(AssigningInstance(Rules(policy=name)), 150)
    for number in range(50):  # a third of the tasks are known better than the rest
        assigning.hand_in(f"w{number}", f"t{number}", -1)
    got = {assigning.ask(f"asks-{number}")[0]["task"] for number in range(100)}
    assert got == {f"t{number}" for number in range(50, 150)}


@pytest.mark.parametrize("name", POLICIES)
def test_each_choice_is_the_best_with_what_is_in_flight_counted(name: Name) -> None:
    rng = random.Random(5)
    assigning = registered(AssigningInstance(Rules(policy=name)), 12)
    for number in range(40):
        assigning.hand_in(f"w{number}", f"t{rng.randrange(12)}", rng.choice([1, 1, -1]))
    weight = log(PRIOR.alpha / PRIOR.beta)

    def key(task: str) -> float:
        posterior, in_flight = posteriors[task], assigning.leases.in_flight(task)
        if name == "uniform":
            return float(posterior["labels"] + in_flight)
        return float(abs(posterior["log_odds"]) + weight * in_flight)

    posteriors = assigning.instance.results()
    for number in range(60):
        before = {task: key(task) for task in posteriors}
        [assignment] = assigning.ask(f"asks-{number}")
        assert before[assignment["task"]] == pytest.approx(min(before.values()))


def test_an_expired_lease_frees_the_task_and_a_late_label_counts() -> None:
    assigning = registered(AssigningInstance(Rules(lease_ms=LEASE)), 1)
    [first] = assigning.ask("ann")
    assert assigning.ask("ann")[0]["reason"] == "all-answered"
    assigning.now = first["expires_at"] - 1
    assigning.stage.refresh(assigning.now)
    assert assigning.leases.in_flight("t0") == 1
    assigning.now = first["expires_at"]
    assert assigning.ask("bob")[0]["task"] == "t0"
    assert assigning.leases.in_flight("t0") == 1
    assert assigning.ask("ann")[0]["reason"] == "all-answered"  # their label may be on its way
    assert assigning.hand_in("ann", "t0", 1) == []
    assert assigning.instance.results()["t0"]["labels"] == 1


def test_a_late_answer_taken_back_can_be_asked_for_again() -> None:
    assigning = registered(AssigningInstance(Rules(lease_ms=LEASE)), 1)
    [first] = assigning.ask("ann")
    assigning.now = first["expires_at"]
    assigning.stage.refresh(assigning.now)
    assigning.hand_in("ann", "t0", 1)
    assigning.hand_in("ann", "t0", None)
    assert assigning.ask("ann")[0]["task"] == "t0"


def test_labels_without_a_request_cost_the_policy_nothing() -> None:
    assigning = registered(AssigningInstance(Rules()), 2)
    assert not assigning.stage.heeds_labels
    [got] = assigning.ask("ann")
    assert assigning.stage.heeds_labels
    assigning.hand_in("ann", got["task"], 1)
    assert not assigning.stage.heeds_labels


def test_the_end_of_a_lease_is_told_to_all() -> None:
    assigning = registered(AssigningInstance(Rules()), 2)
    [one], [two] = assigning.ask("ann"), assigning.ask("ann")
    assert assigning.hand_in("ann", one["task"], 1) == [
        {"worker": "ann", "task": one["task"], "id": one["id"], "ended": "answered"}
    ]
    assert assigning.hand_in("ann", two["task"], 0)[0]["ended"] == "skipped"
    follower = AssigningInstance(Rules(), assignments=assigning.assignments)
    assert len(follower.leases) == 0


def test_an_answer_taken_back_can_be_asked_for_again() -> None:
    assigning = registered(AssigningInstance(Rules()), 1)
    assigning.ask("ann")
    assigning.hand_in("ann", "t0", 1)
    assert assigning.ask("ann")[0]["task"] is None
    assigning.hand_in("ann", "t0", None)
    assert assigning.ask("ann")[0]["task"] == "t0"


def test_a_request_for_several_gets_as_many_and_a_reason_where_there_are_fewer() -> None:
    assigning = registered(AssigningInstance(Rules()), 3)
    got = assigning.ask("ann", count=2)
    assert len({assignment["task"] for assignment in got}) == 2
    assert [assignment["id"][-2:] for assignment in got] == ["-0", "-1"]
    last, refusal = assigning.ask("ann", count=100)
    assert last["task"] is not None
    assert refusal["reason"] == "all-answered"


def test_a_replayed_request_continues_where_it_was_cut_off() -> None:
    assigning = registered(AssigningInstance(Rules()), 9)
    got = assigning.ask("ann", count=5)
    cut = AssigningInstance(Rules(), assigning.log, assigning.assignments[:2])
    partition = partition_of(b"ann", 3)
    rest = cut.answer(partition, assigning.requests[partition])
    assert [assignment["id"] for assignment in rest] == [assignment["id"] for assignment in got[2:]]
    tasks = {assignment["task"] for assignment in got[:2] + rest}
    assert len(tasks) == 5


def test_the_reasons_when_there_is_no_task() -> None:
    assigning = AssigningInstance(Rules())
    assert assigning.ask("ann")[0]["reason"] == "no-open-task"
    registered(assigning, 2)
    assigning.describe([{"task": "t0", "status": "closed"}])
    assert assigning.ask("ann")[0]["task"] == "t1"
    assert assigning.ask("ann")[0]["reason"] == "all-answered"
    assigning.describe([{"task": "t1", "status": "closed"}])
    assert assigning.ask("bob")[0]["reason"] == "no-open-task"
    assigning.describe([{"task": "t0", "status": "open"}])
    assert assigning.ask("bob")[0]["task"] == "t0"


def test_a_spent_budget_is_the_reason_once_its_tasks_are_closed() -> None:
    assigning = registered(AssigningInstance(Rules(budget=2)), 2)
    assigning.hand_in("ann", "t0", 1)
    assigning.describe([{"task": "t0", "status": "closed"}, {"task": "t1", "status": "closed"}])
    assert assigning.ask("cas")[0]["reason"] == "no-open-task"
    assigning.hand_in("bob", "t0", 1)
    assert assigning.ask("cas")[0]["reason"] == "budget-spent"


def test_a_worker_below_the_bar_gets_nothing_after_enough_labels() -> None:
    assigning = registered(AssigningInstance(Rules(block_below=0.5, block_after=5)), 30)
    assigning.describe({"task": f"t{number}", "gold": 1} for number in range(10))
    for number in range(5):
        assert assigning.ask("ann")[0]["task"] is not None
        assigning.hand_in("ann", f"t{number}", -1)
        assigning.hand_in("bob", f"t{number}", 1)
    assert assigning.ask("ann")[0]["reason"] == "worker-blocked"
    assert assigning.ask("bob")[0]["task"] is not None


def test_gold_is_given_at_its_rate_once_to_each_and_not_at_all_by_default() -> None:
    assigning = registered(AssigningInstance(Rules(gold_rate=0.2, seed=2)), 400)
    assigning.describe({"task": f"gold-{number}", "gold": 1} for number in range(100))
    got = []
    for number in range(300):
        got += assigning.ask("ann")
        assigning.hand_in("ann", got[-1]["task"], 1 if number % 2 else -1)
    gold = [assignment["task"] for assignment in got if assignment["policy"] == "gold"]
    assert len(set(gold)) == len(gold)
    assert all(task.startswith("gold-") for task in gold)
    assert 40 <= len(gold) <= 90  # 0.2 of 300, and 0.8 · 5 / ln 2 more at first
    without = registered(AssigningInstance(Rules()), 50)
    without.describe([{"task": "t7", "gold": -1}])
    assert "t7" not in {assignment["task"] for assignment in without.ask("ann", count=49)}


def test_gold_they_have_seen_is_not_given_again() -> None:
    assigning = registered(AssigningInstance(Rules(gold_rate=1.0)), 3)
    assigning.describe([{"task": "t0", "gold": 1}])
    first, second, third = assigning.ask("ann", count=3)
    assert (first["task"], first["policy"]) == ("t0", "gold")
    assert {second["task"], third["task"]} == {"t1", "t2"}
    assert second["policy"] == "uncertainty"


def test_a_label_is_a_request_where_that_is_set() -> None:
    rules = Rules(assign_on_label=True)
    assigning = registered(AssigningInstance(rules), 3)
    [first] = assigning.ask("ann")
    ended, following = assigning.hand_in("ann", first["task"], 1)
    assert ended["ended"] == "answered"
    assert following["task"] not in (None, first["task"])
    [skipper_gets] = assigning.hand_in("bob", "t1", 0)
    assert skipper_gets["id"].startswith("label-")
    assert skipper_gets["task"] in ("t0", "t2")
    assert assigning.successor(rules).assignments == assigning.assignments


def test_a_label_that_is_a_request_is_answered_after_a_crash() -> None:
    rules = Rules(assign_on_label=True)
    assigning = registered(AssigningInstance(rules), 3)
    assigning.hand_in("ann", "t0", 1)
    answered = assigning.assignments.copy()
    assigning.assignments.clear()  # the crash came before they were published
    assert len(answered) == 1
    assert len(assigning.successor(rules).assignments) == 1


def test_a_lease_whose_end_was_not_told_ends_when_the_partition_is_taken_over() -> None:
    assigning = registered(AssigningInstance(Rules()), 3)
    [got] = assigning.ask("ann")
    assigning.hand_in("ann", got["task"], 1)
    assigning.assignments.pop()  # the crash came before the end was published
    successor = assigning.successor(Rules())
    assert len(successor.leases) == 0
    assert len(successor.assignments) == 2


def test_bad_and_misplaced_requests() -> None:
    assigning = registered(AssigningInstance(Rules(), partitions=8), 3)
    home = partition_of(b"ann", 8)
    wrong = (home + 1) % 8
    records = [SimulatedRecord(0, 0, b"{}"), SimulatedRecord(1, 0, encode_request("ann"))]
    assert assigning.answer(wrong, records) == []
    assert [rejected.why.reason for rejected in assigning.last.rejected] == ["missing-field"]
    assert [(f.key, f.partition) for f in assigning.last.forwarded] == [("ann", home)]


def test_the_policy_follows_the_view_in_pieces() -> None:
    assigning = registered(AssigningInstance(Rules()), 25)
    stage: AssignmentStage = assigning.stage
    assert stage.refresh(0, limit=10) == 15
    assert stage.refresh(0, limit=10) == 5
    assert stage.refresh(0, limit=10) == 0
    assert len(stage.policy) == 25
