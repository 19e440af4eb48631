"""Leases against a list of all of them: they end with the label, a skip, or their expiry."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.instance.leases import AnsweredRequests, Leases, Request
from sbic.instance.requests import GoldRate
from sbic.wire.assignments import AssignmentId, AssignmentRecord

WORKERS = ["ann", "bob", "cas"]
TASKS = ["t1", "t2", "t3", "t4"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["give", "give", "end", "expire", "again"]),
        st.sampled_from(WORKERS),
        st.sampled_from(TASKS),
        st.integers(0, 5),
    ),
    max_size=60,
)


@dataclass
class ListOfLeases:
    """The plainest form: all leases, looked through every time."""

    leases: dict[tuple[str, str], int] = field(default_factory=dict)

    def expire(self, now: int) -> None:
        self.leases = {pair: end for pair, end in self.leases.items() if end > now}


def lease(worker: str, task: str | None, offset: int, expires_at: int) -> AssignmentRecord:
    return AssignmentRecord(worker, task, AssignmentId(0, offset, 0), expires_at, ended=False)


@given(STEPS)
def test_leases_are_those_given_and_not_ended(steps: list[tuple[str, str, str, int]]) -> None:
    leases, plain = Leases(), ListOfLeases()
    records: list[AssignmentRecord] = []
    now = 0
    for verb, worker, task, time in steps:
        if verb == "give":
            records.append(lease(worker, task, len(records), now + time + 1))
            leases.learn(records[-1], 0, now)
            plain.leases[worker, task] = now + time + 1
        elif verb == "end":
            ended = leases.end(worker, task)
            assert (ended is not None) is ((worker, task) in plain.leases)
            plain.leases.pop((worker, task), None)
        elif verb == "expire":
            now += time
            leases.expire(now)
            plain.expire(now)
        elif records:
            leases.learn(records[time % len(records)], 0, now)  # read a second time
        assert {(w, t) for w in WORKERS for t in leases.of(w)} == set(plain.leases)
        assert len(leases) == len(plain.leases)
        for name in TASKS:
            assert leases.in_flight(name) == sum(t == name for _, t in plain.leases)
    leases.expire(now + 10)
    assert len(leases) == 0


@given(STEPS)
def test_changed_has_every_task_whose_number_in_flight_changed(
    steps: list[tuple[str, str, str, int]],
) -> None:
    leases = Leases()
    now = 0
    for offset, (verb, worker, task, time) in enumerate(steps):
        before = {name: leases.in_flight(name) for name in TASKS}
        leases.changed.clear()
        if verb == "give":
            leases.learn(lease(worker, task, offset, now + time + 1), 0, now)
        elif verb == "end":
            leases.end(worker, task)
        else:
            now += time
            leases.expire(now)
        moved = {name for name in TASKS if leases.in_flight(name) != before[name]}
        assert moved <= set(leases.changed)


def test_all_instances_learn_the_same_from_the_topic() -> None:
    given = lease("ann", "t1", 7, 100)
    ended = given._replace(ended=True)
    follower = Leases()
    follower.learn(given, 0, now=0)
    assert follower.in_flight("t1") == 1
    follower.learn(ended, 0, now=1)
    assert follower.in_flight("t1") == 0
    follower.learn(given, 0, now=2)  # read again after a rebalance
    assert follower.in_flight("t1") == 0


def test_the_end_of_an_earlier_lease_leaves_a_later_one() -> None:
    leases = Leases()
    early, late = lease("ann", "t1", 7, 100), lease("ann", "t1", 8, 300)
    leases.learn(early, 0, now=0)
    leases.expire(100)
    leases.learn(late, 0, now=150)
    leases.learn(early._replace(ended=True), 0, now=160)
    assert leases.in_flight("t1") == 1


def test_a_lease_that_is_over_when_it_is_read_is_expired_and_its_request_is_answered() -> None:
    leases = Leases()
    leases.learn(lease("ann", "t1", 7, 100), 0, now=100)
    assert len(leases) == 0
    assert "t1" in leases.expired("ann")
    assert leases.numbers_out(Request("", 0, 7, "ann"), count=1) == 1


def test_an_expired_lease_is_remembered_for_a_while_or_until_its_label_comes() -> None:
    leases = Leases(memory=50)
    for offset, task in enumerate(["t1", "t2"]):
        leases.learn(lease("ann", task, offset, 100), 0, now=0)
    leases.expire(100)
    assert set(leases.expired("ann")) == {"t1", "t2"}
    assert leases.end("ann", "t1") is None
    assert set(leases.expired("ann")) == {"t2"}
    leases.expire(149)
    assert set(leases.expired("ann")) == {"t2"}
    leases.expire(150)
    assert not leases.expired("ann")


def test_a_lease_that_ended_elsewhere_is_remembered_until_its_time_or_its_label() -> None:
    leases = Leases()
    for offset, task in enumerate(["t1", "t2"]):
        given = lease("ann", task, offset, 100)
        leases.learn(given, partition=0, now=0)
        leases.learn(given._replace(ended=True), partition=0, now=1)
    assert (len(leases), set(leases.ended("ann"))) == (0, {"t1", "t2"})
    leases.end("ann", "t1")  # its label is taken here now
    assert set(leases.ended("ann")) == {"t2"}
    leases.expire(100)
    assert leases.is_empty
    assert leases.forgotten == [("ann", "t2")]


def test_a_request_that_was_answered_in_part_is_answered_to_the_end() -> None:
    leases = Leases()
    for number in range(3):
        name = AssignmentId(0, 7, number)
        leases.learn(AssignmentRecord("ann", f"t{number}", name, 100, ended=False), 0, now=0)
    assert leases.numbers_out(Request("", 0, 6, "ann"), count=9) == 0  # nobody answered it
    assert leases.numbers_out(Request("", 0, 7, "bob"), count=9) == 0  # it is ann's
    assert leases.numbers_out(Request("", 0, 7, "ann"), count=2) == 2
    assert leases.numbers_out(Request("", 0, 7, "ann"), count=9) == 3
    assert leases.numbers_out(Request("", 0, 8, "ann"), count=9) == 0
    assert leases.numbers_out(Request("", 1, 7, "ann"), count=9) == 0
    assert leases.numbers_out(Request("label", 0, 7, "ann"), count=1) == 0
    leases.learn(AssignmentRecord("ann", None, AssignmentId(0, 7, 3), 0, ended=False), 0, now=0)
    assert leases.numbers_out(Request("", 0, 7, "ann"), count=9) == 9


def test_what_ended_long_before_its_time_leaves_nothing_behind() -> None:
    leases = Leases()
    for offset in range(10_000):
        leases.learn(lease("ann", f"t{offset}", offset, 10**9), 0, now=0)
        leases.end("ann", f"t{offset}")
    assert len(leases._running._times) < 100
    assert leases._in_flight == {}


def test_requests_of_long_ago_are_answered_and_a_few_of_late_are_known_one_by_one() -> None:
    answered = AnsweredRequests(remembered=10)
    for offset in range(0, 60, 2):
        answered.add(offset, "ann", 0, is_refused=False)
    assert answered.numbers_out(1, "ann", 1) == 1
    assert answered.numbers_out(58, "ann", 1) == 1
    assert answered.numbers_out(57, "ann", 1) == 0
    assert len(answered._out) <= 20


@pytest.mark.parametrize(("labels", "share"), [(0, 0.25), (5, 0.15), (100, 0.05)])
def test_gold_comes_at_its_rate_and_more_often_to_new_workers(labels: int, share: float) -> None:
    rate = GoldRate(0.05, seed=3)
    due = sum(rate.is_due(f"w{n % 100}", n // 100, labels) for n in range(20_000))
    assert due / 20_000 == pytest.approx(share, abs=0.012)


def test_gold_is_drawn_from_the_seed_the_worker_and_the_number() -> None:
    def draws(seed: int) -> list[bool]:
        rate = GoldRate(0.3, seed)
        return [rate.is_due("ann", number, 100) for number in range(100)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert not any(GoldRate(0.0).is_due("ann", number, 0) for number in range(100))
