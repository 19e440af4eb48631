"""Escalation: each tier gets its own tasks, those first of which a label takes off most error."""

from math import exp

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbic.policy.escalate import Escalate
from sbic.policy.policy import AnswerSet
from tests.examples import examples

TASKS, TIERS = 30, 4
STEPS = np.array([1.0, 0.4, 1.5, 3.0])


def gain(lead: float, labels: int, in_flight: int, tier: int, dependence: float) -> float:
    """How much error a label of the tier is expected to take off a task."""
    step = STEPS[tier] / (1 + (labels + in_flight) * dependence)
    return 1 / (1 + exp(-step)) - 1 / (1 + exp(-(lead + step * in_flight)))


@given(st.integers(0, 2**20), st.floats(0, 0.9), st.sets(st.integers(0, TASKS - 1)))
@examples(100)
def test_a_tier_gets_the_task_of_which_its_label_takes_off_most_error(
    seed: int, dependence: float, answered: set[int]
) -> None:
    rng = np.random.default_rng(seed)
    policy, tasks = Escalate(range(TASKS), STEPS, seed), np.arange(TASKS)
    for _ in range(4):  # tasks move from tier to tier, close and reopen
        is_open = rng.random(TASKS) < 0.8
        tiers = rng.integers(0, TIERS, TASKS).astype(np.int8)
        left = rng.integers(1, 4, TASKS).astype(np.int32)
        labels, in_flight = rng.integers(0, 9, TASKS), rng.integers(0, 3, TASKS)
        leads = np.abs(rng.normal(0, 2, TASKS))
        some = tasks[rng.random(TASKS) < 0.7]
        policy.follow(
            some,
            is_open[some],
            tiers,
            left,
            labels[some],
            leads[some],
            in_flight[some],
            dependence,
        )
    policy.follow(tasks, is_open, tiers, left, labels, leads, in_flight, dependence)
    offered = is_open & (in_flight < left) & (tiers > 0)
    assert len(policy) == offered.sum()
    for tier in range(TIERS):
        mine = np.flatnonzero(offered & (tiers == tier))
        assert policy.open_in(tier) == (len(mine) if tier else 0)
        gains = {
            int(i): gain(leads[i], int(labels[i]), int(in_flight[i]), tier, dependence)
            for i in mine
            if i not in answered and tier
        }
        chosen = policy.choose(tier, AnswerSet(answered))
        if gains:
            assert chosen is not None
            assert gains[chosen] >= max(gains.values()) - 1e-8
        else:
            assert chosen is None


def test_of_tasks_as_uncertain_one_with_few_labels_gains_more_where_errors_agree() -> None:
    policy, tasks = Escalate(range(2), STEPS), np.arange(2)
    offers = np.full(2, 2, np.int8), np.full(2, 9, np.int32)
    labels, nothing = np.array([5, 1]), np.zeros(2, np.int64)
    policy.follow(tasks, tasks >= 0, *offers, labels, np.ones(2), nothing, 0.5)
    assert policy.choose(2, AnswerSet()) == 1


def test_a_worker_with_many_answers_gets_the_rest_and_what_was_taken_back() -> None:
    tasks = np.arange(2_000)
    policy = Escalate(range(len(tasks)), STEPS)
    offers = np.ones(len(tasks), np.int8), np.full(len(tasks), 9, np.int32)
    nothing = np.zeros(len(tasks), np.int64)
    policy.follow(tasks, tasks >= 0, *offers, nothing, np.zeros(len(tasks)), nothing, 0.0)
    answered = AnswerSet()
    for _ in tasks:
        task = policy.choose(1, answered, "ann")
        assert task is not None
        answered.add(task)
    assert policy.choose(1, answered, "ann") is None
    assert policy.remembers_workers
    answered.remove(7)
    policy.allow(7, "ann")
    assert policy.choose(1, answered, "ann") == 7
    policy.forget()
    assert not policy.remembers_workers
