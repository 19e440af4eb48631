"""Uncertainty sampling for algorithms that move every task at once."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbic.research.simulated import Scan

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
