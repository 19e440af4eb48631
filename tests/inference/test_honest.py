"""The honest model equals its literal reference, as labels arrive and at rest."""

import importlib.util
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbic.engine import honest
from sbic.engine.labels import Prior, softmax

PATH = Path(os.environ.get("SBIC_DATA", "/none")).parent / "models/settled_reference.py"


@pytest.fixture(scope="module")
def reference() -> Any:
    if not PATH.exists():
        pytest.skip(f"SBIC_DATA does not lead to {PATH.name}")
    spec = importlib.util.spec_from_file_location("settled_reference", PATH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Crowd:
    """The compiled model by slot: every worker may answer every task."""

    def __init__(self, tasks: int, workers: int, classes: int) -> None:
        self.workers, self.classes = workers, classes
        self.task = np.repeat(np.arange(tasks), workers)
        who = np.tile(np.arange(workers), tasks)
        self.h = honest.empty(self.task, who, tasks, workers, classes, Prior())

    def take(self, i: int, j: int, x: int) -> None:
        slot = i * self.workers + j
        honest.take(self.h, *(np.array([value]) for value in (i, slot, x)))

    def gold(self, i: int, k: int) -> None:
        honest.describe(self.h, i, k, self.h.prior[i].copy())

    def settle(self, common: int, sweeps: int = 2000) -> None:
        self.h = honest.with_copies(self.h, self.task, common)
        for _ in range(sweeps):
            if honest.sweep(self.h) < 1e-12:
                return


def same_inside(crowd: Crowd, by_hand: Any) -> None:
    honest.look(crowd.h)
    for i, p in by_hand.P.items():
        assert crowd.h.belief[i] == pytest.approx(p, abs=1e-9)
    found = crowd.h.crowd[[honest.M, honest.S, honest.G]]
    assert found == pytest.approx([by_hand.m(), by_hand.S(), by_hand.g()], rel=1e-9)


def same_outside(crowd: Crowd, by_hand: Any) -> None:
    h, known = crowd.h, list(by_hand.P)
    seen, rho, votes = honest.depend(h)
    assert (seen, rho) == pytest.approx((by_hand.seen, by_hand.r), abs=1e-8)
    x = honest.discounted(h.score, votes, rho)
    gold = np.array([i for i in by_hand.truth if by_hand.labels[i]], np.int64)
    alpha, b = honest.calibrated(x[gold], h.gold[gold])
    assert [alpha, *b] == pytest.approx([by_hand.alpha, *by_hand.b], abs=1e-7)
    free = [i for i in known if i not in by_hand.truth]
    published = softmax(alpha * x + b)[free]
    assert published == pytest.approx(np.array([by_hand.published(i) for i in free]), abs=1e-7)
    if len(gold) > 1 and len(gold) == len(by_hand.truth):
        among = np.array([known.index(i) for i in gold])
        found = honest.prevalence(softmax(x[known]), among, h.gold[gold])
        expected = np.array([by_hand.prevalence(k) for k in range(crowd.classes)]).T
        assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("classes", "golds", "copies"),
    [(2, 0, 0), (2, 12, 0), (3, 0, 0), (3, 12, 0), (2, 0, 1), (3, 12, 1)],
)
def test_the_vectors_of_a_jury(reference: Any, classes: int, golds: int, copies: int) -> None:
    labels, truth = reference.example(classes)
    crowd = Crowd(80, 6 + copies, classes)
    for i, j, x in labels + [(i, 6, x) for i, j, x in labels if j == 1][: 80 * copies]:
        crowd.take(i, j, x)
    for i in range(golds):
        crowd.gold(i, truth[i])
    crowd.settle(common=10)
    by_hand = reference.run(classes, golds, copies=copies)
    same_inside(crowd, by_hand)
    same_outside(crowd, by_hand)
    honest.look(crowd.h)
    expected = reference.VECTORS[classes, golds, copies][:3]
    assert crowd.h.crowd[[honest.M, honest.S, honest.G]] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_random_crowds_equal_the_equations(reference: Any, seed: int) -> None:
    rng, classes = random.Random(seed), 2 + seed % 5
    crowd, by_hand = Crowd(30, 8, classes), reference.Settled(classes, common=10)
    truth = [rng.randrange(classes) for _ in range(30)]
    for _ in range(220):
        i, j = rng.randrange(30), rng.randrange(8)
        given = dict(by_hand.labels.get(i, []))
        x = truth[i] if rng.random() < 0.6 else rng.randrange(classes)
        if j == 7 and 6 in given:
            x = given[6]  # a copy
        if rng.random() < 0.1 and j in given:
            by_hand.retract(i, j)
            crowd.take(i, j, honest.NONE)
        elif rng.random() < 0.03 and given and i not in by_hand.truth:
            by_hand.gold(i, truth[i])
            crowd.gold(i, truth[i])
        elif given.get(j) != x:
            if j in given:
                by_hand.retract(i, j)
            by_hand.add(i, j, x)
            crowd.take(i, j, x)
        same_inside(crowd, by_hand)
    if by_hand.settle():
        crowd.settle(common=10)
        same_inside(crowd, by_hand)
        same_outside(crowd, by_hand)


def test_gold_withdrawn_and_priors_leave_no_trace_at_rest() -> None:
    rng = np.random.default_rng(4)
    plain, changed = Crowd(40, 6, 3), Crowd(40, 6, 3)
    for i in range(40):
        for j in range(6):
            x = i % 3 if rng.random() < 0.7 else int(rng.integers(3))
            plain.take(i, j, x)
            changed.take(i, j, x)
    none = np.zeros(3)
    honest.describe(changed.h, 3, 2, none)
    honest.describe(changed.h, 5, honest.NONE, np.array([0.7, 0.2, 0.1]))
    changed.settle(common=50)
    assert np.abs(changed.h.belief - plain.h.belief).max() > 0.01
    for i in (3, 5):
        honest.describe(changed.h, i, honest.NONE, none)
    for crowd in (plain, changed):
        crowd.settle(common=50)
    assert changed.h.belief == pytest.approx(plain.h.belief, abs=1e-9)
