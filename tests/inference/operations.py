"""What happens to a crowd, drawn by hypothesis: to an engine, and to a computation by hand."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from hypothesis import strategies as st

from sbic.engine import RETRACT
from sbic.engine.engine import Engine

TASKS, WORKERS = 24, 6
COMMON = 3  # contested tasks that make copies
REST = 1e-12

Operation = tuple[str, int, int, int, list[float]]
AT_LAST: Operation = "settle", 0, 0, 0, []
VERBS = ["label"] * 4 + ["retract", "gold", "prior", "settle"] + ["answers", "repeats"] * 2


def operations(most: int) -> st.SearchStrategy[list[Operation]]:
    """Up to this many: labels, some of many tasks at once or those of another worker again.

    Labels are also replaced and taken back, gold and priors are given and withdrawn, and between
    two others all may come to rest.
    """
    one = st.tuples(
        st.sampled_from(VERBS),
        st.integers(0, TASKS - 1),
        st.integers(0, WORKERS - 1),
        st.integers(0, 2**20),
        st.lists(st.floats(0.05, 1), min_size=6, max_size=6),
    )
    few, many = st.lists(one, min_size=1, max_size=12), st.lists(one, min_size=12, max_size=most)
    seed = st.integers(0, 2**20)
    return few | many | st.builds(lambda seed, rest: [*_all_answer(seed), *rest], seed, few | many)


def _all_answer(seed: int) -> list[Operation]:
    """Two workers answer all tasks, and the others repeat the first, or do so mostly."""
    own: list[Operation] = [("answers", 0, j, seed ^ j, []) for j in range(2)]
    return [*own, *(("repeats", 0, j, seed ^ j, []) for j in range(2, WORKERS))]


class ByHand(Protocol):
    """A computation in which the same happens one label at a time."""

    def labels_of(self, i: int) -> Mapping[int, int]:
        """The answers to a task, by worker."""

    def observe(self, i: int, j: int, x: int) -> None:
        """Count a label."""

    def retract(self, i: int, j: int) -> None:
        """Take a label back."""

    def set_gold(self, i: int, x: int | None) -> None:
        """Let the truth of a task be known, or unknown again."""

    def set_prior(self, i: int, prior: Sequence[float] | None) -> None:
        """Give a task its own prior, or that of all."""


def happen(operation: Operation, engine: Engine, by_hand: ByHand) -> None:
    """Let it happen to both; to come to rest is left to the caller."""
    verb, i, j, number, weights = operation
    x = number % engine.classes
    if verb == "gold":
        gold = None if number & 1024 else x
        engine.set_gold(i, gold)
        by_hand.set_gold(i, gold)
    elif verb == "prior":
        prior = np.array(weights[: engine.classes]) / sum(weights[: engine.classes])
        given = None if number & 1024 else prior.tolist()
        engine.set_prior(i, given)
        by_hand.set_prior(i, given)
    elif verb == "retract":
        if j in by_hand.labels_of(i):
            by_hand.retract(i, j)
        engine.take([i], [j], [RETRACT])
    elif verb == "label":
        _label(engine, by_hand, i, j, x)
    elif verb == "answers":  # half of them right, if the truth is i modulo the classes
        rng = np.random.default_rng(number)
        drawn = rng.integers(engine.classes, size=TASKS)
        says = np.where(rng.random(TASKS) < 0.5, np.arange(TASKS) % engine.classes, drawn)
        for task, answer in enumerate(says.tolist()):
            _label(engine, by_hand, task, j, answer)
    elif verb == "repeats":  # worker j all or most answers of worker i
        rng, share = np.random.default_rng(number), 0.8 if number % 3 else 1.0
        for task in range(TASKS):
            answer = by_hand.labels_of(task).get(i)
            if answer is not None:
                own = int(rng.integers(engine.classes))
                _label(engine, by_hand, task, j, answer if rng.random() < share else own)


def _label(engine: Engine, by_hand: ByHand, i: int, j: int, x: int) -> None:
    """Give or replace a label."""
    known = by_hand.labels_of(i).get(j)
    engine.take([i], [j], [x], replaces=True)
    if known is None:
        by_hand.observe(i, j, x)
    elif known != x:
        by_hand.retract(i, j)
        by_hand.observe(i, j, x)
