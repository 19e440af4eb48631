import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.policy import Policy
from pipeline.policies.uncertainty import Uncertainty
from pipeline.policies.uniform import Uniform

EXPECTED_WEIGHT = 0.7
State = tuple[int, float, int]  # labels, lead, in_flight

KINDS: dict[str, tuple[Callable[[int], Policy[str]], Callable[[State], float]]] = {
    "uniform": (Uniform, lambda s: s[0] + s[2]),
    "uncertainty": (
        lambda seed: Uncertainty(seed, EXPECTED_WEIGHT),
        lambda s: s[1] + s[2] * EXPECTED_WEIGHT,
    ),
}
kinds = st.sampled_from(sorted(KINDS))
tasks = st.sampled_from([f"t{i}" for i in range(8)])
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
    kind: str, operations: list[tuple[str, str | frozenset[str], State]]
) -> None:
    make, key = KINDS[kind]
    policy = make(1)
    opened: dict[str, State] = {}
    for verb, what, state in operations:
        if verb == "choose":
            allowed = {task: key(state) for task, state in opened.items() if task not in what}
            chosen = policy.choose(what)
            if not allowed:
                assert chosen is None
            else:
                assert chosen is not None
                assert allowed[chosen] == min(allowed.values())
        elif verb == "update":
            assert isinstance(what, str)
            policy.update(what, *state)
            opened[what] = state
        else:
            assert isinstance(what, str)
            policy.remove(what)
            opened.pop(what, None)
        assert len(policy) == len(opened)
        assert all((task in policy) == (task in opened) for task in ("t0", "t1"))


@given(kinds, operations, st.integers(0, 3))
def test_the_choice_depends_on_how_the_tasks_stand_not_on_how_they_came_there(
    kind: str, operations: list[tuple[str, str | frozenset[str], State]], seed: int
) -> None:
    make, _ = KINDS[kind]
    lived = make(seed)
    opened: dict[str, State] = {}
    for verb, what, state in operations:
        if verb == "choose":
            lived.choose(what)
        elif verb == "update" and isinstance(what, str):
            lived.update(what, *state)
            opened[what] = state
        elif isinstance(what, str):
            lived.remove(what)
            opened.pop(what, None)
    fresh = make(seed)
    for task, state in reversed(opened.items()):
        fresh.update(task, *state)
    answered: set[str] = set()
    while (chosen := fresh.choose(answered)) is not None:
        assert lived.choose(answered) == chosen
        answered.add(chosen)
    assert lived.choose(answered) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_gets_each_task_once_and_then_none(kind: str) -> None:
    policy = KINDS[kind][0](1)
    names = [f"t{i}" for i in range(100)]
    for task in names:
        policy.update(task, 0, 0.0)
    answered: list[str] = []
    while (chosen := policy.choose(set(answered))) is not None:
        answered.append(chosen)
        policy.update(chosen, 1, 0.0)  # a vote of no weight: as uncertain as before
    assert sorted(answered) == sorted(names)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_come_first_equally_often(kind: str) -> None:
    first: Counter[str | None] = Counter()
    for seed in range(2000):
        policy = KINDS[kind][0](seed)
        for i in range(8):
            policy.update(f"t{i}", 3, 1.5)
        first[policy.choose(())] += 1
    chi_square = sum((first[f"t{i}"] - 250) ** 2 / 250 for i in range(8))
    assert chi_square < 24.3  # 7 degrees of freedom: one seed in a thousand would fail


def order_of_equals(policy: Policy[str], labels: int) -> dict[str, int]:
    for i in range(400):
        policy.update(f"t{i}", labels, 0.0)
    place: dict[str, int] = {}
    while (chosen := policy.choose(place)) is not None:
        place[chosen] = len(place)
    return place


@pytest.mark.parametrize("labels", [0, 1, 2, 7])
def test_equals_are_in_another_order_after_every_label(labels: int) -> None:
    policy = Uniform[str](1)
    before, after = order_of_equals(policy, labels), order_of_equals(policy, labels + 1)
    mean = 199.5
    variance = sum((place - mean) ** 2 for place in before.values())
    covariance = sum((before[task] - mean) * (after[task] - mean) for task in before)
    assert abs(covariance / variance) < 0.16  # three standard errors and a bit


@pytest.mark.parametrize("seed", range(5))
def test_the_crowd_does_not_close_into_blocks(seed: int) -> None:
    policy = Uniform[int](seed)
    labels = [0] * 100
    for task in range(100):
        policy.update(task, 0, 0.0)
    together = set()
    for _ in range(200):
        answered: set[int] = set()
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
    policy = Uniform[str](1)
    policy.update("t1", 1, 0.0)
    policy.update("t2", 2, 0.0)
    assert policy.choose(()) == "t1"
    policy.update("t1", 1, 0.0, in_flight=2)
    assert policy.choose(()) == "t2"
    policy.update("t1", 1, 0.0)
    assert policy.choose(()) == "t1"


def test_without_a_weight_to_expect_leases_still_draw_another_order() -> None:
    policy = Uncertainty[str](seed=1)
    chosen = set()
    for task in range(20):
        policy.update(f"t{task}", 0, 0.0)
    for leases in range(20):
        task_ = policy.choose(())
        assert task_ is not None
        chosen.add(task_)
        policy.update(task_, 0, 0.0, in_flight=leases + 1)
    assert len(chosen) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_updates_that_nobody_chooses_between_do_not_fill_the_memory(kind: str) -> None:
    policy = KINDS[kind][0](1)
    for step in range(20_000):
        policy.update(f"t{step % 50}", step, step * 0.1)
        assert len(policy._heap) <= 2 * 50 + 64 + 1


class Asked:
    """A worker who has answered nothing, and counts the questions about it."""

    def __init__(self) -> None:
        self.questions = 0

    def __contains__(self, task: object) -> bool:
        self.questions += 1
        return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_choice_does_not_look_at_all_tasks(kind: str) -> None:
    policy = KINDS[kind][0](1)
    for task in range(10_000):
        policy.update(f"t{task}", 0, 0.0)
    worker = Asked()
    policy.choose(worker)
    assert worker.questions == 1


CHOICES_OF_A_PROCESS = """
from pipeline.policies.uniform import Uniform
policy, labels = Uniform(7), {f"t{i}": 0 for i in range(20)}
for task in labels:
    policy.update(task, 0, 0.0)
for _ in range(60):
    task = policy.choose(())
    print(task)
    labels[task] += 1
    policy.update(task, labels[task], 0.0)
"""


def test_another_process_with_the_same_seed_chooses_the_same() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", CHOICES_OF_A_PROCESS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 60


def test_tasks_that_differ_by_rounding_alone_are_equals() -> None:
    def order(error: float) -> list[str]:
        policy: Policy[str] = Uncertainty(3)
        for i in range(8):
            policy.update(f"t{i}", 2, 0.6931471805599453 + error * i)
        found: list[str] = []
        while (chosen := policy.choose(found)) is not None:
            found.append(chosen)
        return found

    assert order(1e-16) == order(0.0) == order(-1e-16)
    assert order(1e-6) == [f"t{i}" for i in range(8)]
