import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.policy import order as layout
from sbic.policy.policy import AnswerSet, Policy, Uncertainty, Uniform
from sbic.research.simulated import Scan

EXPECTED_WEIGHT = 0.7
State = tuple[int, float, int]  # labels, lead, in_flight
NAMES = [f"t{i}" for i in range(10_000)]
NOBODY = AnswerSet()
KINDS: dict[str, tuple[Callable[[int], Policy], Callable[[State], float]]] = {
    "uniform": (lambda seed: Uniform(NAMES, seed), lambda s: s[0] + s[2]),
    "uncertainty": (
        lambda seed: Uncertainty(NAMES, seed, EXPECTED_WEIGHT),
        lambda s: s[1] + s[2] * EXPECTED_WEIGHT,
    ),
}
kinds = st.sampled_from(sorted(KINDS))
tasks = st.integers(0, 7)
states = st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.5]), st.integers(0, 2))
operations = st.lists(
    st.one_of(
        st.tuples(st.just("update"), tasks, states),
        st.tuples(st.just("remove"), tasks, states),
        st.tuples(st.just("choose"), st.frozensets(tasks), states),
    ),
    max_size=60,
)


@given(kinds, operations)
def test_the_choice_is_that_of_a_scan_over_all_tasks(
    kind: str, operations: list[tuple[str, int | frozenset[int], State]]
) -> None:
    make, key = KINDS[kind]
    policy = make(1)
    opened: dict[int, State] = {}
    for verb, what, state in operations:
        if isinstance(what, frozenset):
            allowed = {task: key(state) for task, state in opened.items() if task not in what}
            chosen = policy.choose(AnswerSet(what))
            if not allowed:
                assert chosen is None
            else:
                assert chosen is not None
                assert allowed[chosen] == min(allowed.values())
        elif verb == "update":
            policy.update(what, *state)
            opened[what] = state
        else:
            policy.remove(what)
            opened.pop(what, None)
        assert len(policy) == len(opened)
        assert all((task in policy) == (task in opened) for task in (0, 1))


@given(kinds, operations, st.integers(0, 3))
def test_the_choice_depends_on_how_the_tasks_stand_not_on_how_they_came_there(
    kind: str, operations: list[tuple[str, int | frozenset[int], State]], seed: int
) -> None:
    make, _ = KINDS[kind]
    lived = make(seed)
    opened: dict[int, State] = {}
    for verb, what, state in operations:
        if isinstance(what, frozenset):
            lived.choose(AnswerSet(what))
        elif verb == "update":
            lived.update(what, *state)
            opened[what] = state
        else:
            lived.remove(what)
            opened.pop(what, None)
    fresh = make(seed)
    for task, state in reversed(opened.items()):
        fresh.update(task, *state)
    answered = AnswerSet()
    while (chosen := fresh.choose(answered)) is not None:
        assert lived.choose(answered) == chosen
        answered.add(chosen)
    assert lived.choose(answered) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_gets_each_task_once_and_then_none(kind: str) -> None:
    policy = KINDS[kind][0](1)
    for task in range(100):
        policy.update(task, 0, 0.0)
    answered = AnswerSet()
    while (chosen := policy.choose(answered)) is not None:
        assert chosen not in answered
        answered.add(chosen)
        policy.update(chosen, 1, 0.0)  # a vote of no weight: as uncertain as before
    assert answered == set(range(100))


@pytest.mark.parametrize("kind", KINDS)
def test_equals_come_first_equally_often(kind: str) -> None:
    first: Counter[int | None] = Counter()
    for seed in range(2000):
        policy = KINDS[kind][0](seed)
        for task in range(8):
            policy.update(task, 3, 1.5)
        first[policy.choose(NOBODY)] += 1
    chi_square = sum((first[task] - 250) ** 2 / 250 for task in range(8))
    assert chi_square < 24.3  # 7 degrees of freedom: one seed in a thousand would fail


def all_in_order(policy: Policy) -> list[int]:
    found = AnswerSet()
    order = []
    while (chosen := policy.choose(found)) is not None:
        order.append(chosen)
        found.add(chosen)
    return order


def order_of_equals(policy: Policy, labels: int) -> dict[int, int]:
    for task in range(400):
        policy.update(task, labels, 0.0)
    return {task: place for place, task in enumerate(all_in_order(policy))}


@pytest.mark.parametrize("labels", [0, 1, 2, 7])
def test_equals_are_in_another_order_after_every_label(labels: int) -> None:
    policy = Uniform(NAMES, 1)
    before, after = order_of_equals(policy, labels), order_of_equals(policy, labels + 1)
    mean = 199.5
    variance = sum((place - mean) ** 2 for place in before.values())
    covariance = sum((before[task] - mean) * (after[task] - mean) for task in before)
    assert abs(covariance / variance) < 0.16  # three standard errors and a bit


@pytest.mark.parametrize("seed", range(5))
def test_the_crowd_does_not_close_into_blocks(seed: int) -> None:
    policy = Uniform(range(100), seed)
    labels = [0] * 100
    for task in range(100):
        policy.update(task, 0, 0.0)
    together = set()
    for _ in range(200):
        answered = AnswerSet()
        for _ in range(10):
            chosen = policy.choose(answered)
            assert chosen is not None
            answered.add(chosen)
            labels[chosen] += 1
            policy.update(chosen, labels[chosen], 0.0)
        together |= {(a, b) for a in answered for b in answered if a < b}
    # Of the 4950 pairs of tasks, random orders let about 4200 meet; blocks of ten 450, and
    # orders that only look random (Python's own hash of a tuple) 3150.
    assert len(together) > 4100


def test_an_assignment_in_flight_counts_as_a_label_to_come() -> None:
    policy = Uniform(NAMES, 1)
    policy.update(1, 1, 0.0)
    policy.update(2, 2, 0.0)
    assert policy.choose(NOBODY) == 1
    policy.update(1, 1, 0.0, in_flight=2)
    assert policy.choose(NOBODY) == 2
    policy.update(1, 1, 0.0)
    assert policy.choose(NOBODY) == 1


def test_without_a_weight_to_expect_leases_still_draw_another_order() -> None:
    policy = Uncertainty(NAMES, seed=1)
    chosen = set()
    for task in range(20):
        policy.update(task, 0, 0.0)
    for leases in range(20):
        first = policy.choose(NOBODY)
        assert first is not None
        chosen.add(first)
        policy.update(first, 0, 0.0, in_flight=leases + 1)
    assert len(chosen) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_updates_without_a_choice_in_between_do_not_fill_the_memory(kind: str) -> None:
    policy = KINDS[kind][0](1)
    for step in range(20_000):
        policy.update(step % 50, step, step * 0.1)
    assert policy._order.runs.size <= 4 * (layout.TASKS + 2 * layout.LONG)


def test_tasks_that_close_leave_their_room_to_others() -> None:
    policy = Uniform(NAMES, 1)
    for first in range(0, 10_000, 1000):
        for task in range(first, first + 1000):
            policy.update(task, task, 0.0)
        assert policy.choose(NOBODY) == first
        for task in range(first, first + 1000):
            policy.remove(task)
    assert len(policy._order.runs) <= 8 * 1000 // layout.LONG


class CountedNobody(AnswerSet):
    """A worker who has answered nothing, and counts the questions about it."""

    questions = 0

    def __contains__(self, task: object) -> bool:
        self.questions += 1
        return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_choice_does_not_look_at_all_tasks(kind: str) -> None:
    policy = KINDS[kind][0](1)
    for task in range(10_000):
        policy.update(task, 0, 0.0)
    worker = CountedNobody()
    policy.choose(worker)
    assert worker.questions == 1


CHOICES_OF_A_PROCESS = """
import sys
if sys.argv[1] == "plain":
    sys.modules["numba"] = None  # as if it were not installed
from sbic.engine.compiled import IS_COMPILED
from sbic.policy.policy import AnswerSet
from sbic.policy.policy import Uncertainty
assert IS_COMPILED == (sys.argv[1] != "plain")
names = [f"t{i}" for i in range(300)]
names.sort(reverse=sys.argv[1] == "reversed")
policy, labels = Uncertainty(names, 7, expected_weight=0.5), [0] * len(names)
for task in range(len(names)):
    policy.update(task, 0, 0.0)
for step in range(100):
    task = policy.choose(AnswerSet())
    print(names[task])
    labels[task] += 1
    policy.update(task, labels[task], 0.5, in_flight=step % 2)
    policy.remove(names.index(f"t{step}"))
"""


def test_another_process_with_the_same_seed_chooses_the_same() -> None:
    """Whatever numbers tasks have there, and without numba too."""
    outputs = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", CHOICES_OF_A_PROCESS, how],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed, how in enumerate(["compiled", "reversed", "plain"])
    }
    assert len(outputs) == 1
    assert len(set(outputs.pop().split())) > 50


def test_tasks_that_differ_by_rounding_alone_are_equals() -> None:
    def found(error: float) -> list[int]:
        policy = Uncertainty(NAMES, 3)
        for task in range(8):
            policy.update(task, 2, 0.6931471805599453 + error * task)
        return all_in_order(policy)

    assert found(1e-16) == found(0.0) == found(-1e-16)
    assert found(1e-6) == list(range(8))


def test_many_tasks_follow_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    together, each = (Uncertainty(NAMES, 1, EXPECTED_WEIGHT) for _ in range(2))
    for _ in range(10):
        tasks, leads = rng.permutation(400)[:300], rng.integers(0, 9, 300) / 4
        is_open, labels, in_flight = rng.integers(0, [[4], [9], [3]], (3, 300))
        together.follow(tasks, is_open > 0, labels, leads, in_flight)
        for t, task in enumerate(tasks.tolist()):
            if is_open[t]:
                each.update(task, int(labels[t]), float(leads[t]), int(in_flight[t]))
            else:
                each.remove(task)
        assert all_in_order(together) == all_in_order(each)


# Uncertainty sampling for algorithms that move every task at once.


scores = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.5]), min_size=1, max_size=8)


@given(scores, st.sets(st.integers(0, 7)), st.integers(0, 5))
def test_the_choice_is_a_least_certain_task_that_is_not_answered(
    score: list[float], answered: set[int], seed: int
) -> None:
    answered = {task for task in answered if task < len(score)}
    chosen = Scan(np.array(score), seed).choose(answered)
    allowed = [abs(z) for task, z in enumerate(score) if task not in answered]
    if not allowed:
        assert chosen is None
    else:
        assert chosen is not None
        assert chosen not in answered
        assert abs(score[chosen]) == min(allowed)


def test_what_was_answered_by_one_worker_is_open_to_the_next() -> None:
    policy = Scan(np.array([0.0, 1.0]))
    assert policy.choose({0}) == 1
    assert policy.choose(set()) == 0


def test_equals_are_chosen_in_an_order_of_the_seed_not_of_the_index() -> None:
    first = [Scan(np.zeros(10), seed).choose(set()) for seed in range(400)]
    assert first == [Scan(np.zeros(10), seed).choose(set()) for seed in range(400)]
    assert set(Counter(first)) == set(range(10))
    assert max(Counter(first).values()) < 80


def test_a_label_gives_its_task_another_place_among_equals() -> None:
    policy = Scan(np.zeros(10), seed=1)
    chosen = []
    for _ in range(200):
        task = policy.choose(set())
        assert task is not None
        chosen.append(task)
        policy.update(task, 1, 0.0)
    assert set(chosen) == set(range(10))
