"""Settled is the reference of its design but for θ and f, on random crowds and any operations.

The reference is a file beside the folder `SBIC_DATA`: `models/settled_reference.py`, plain Python.
It takes the frequencies of a worker's answers for the worker's habit; the engine takes what knowing
the answer does not explain (docs/decisions.md says why). `as_built` is the reference with this
difference, and with a calibration that stands still where the posterior is highest.
"""

from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.engine import Engine
from sbic.engine.formulas import look
from sbic.engine.state import G, M, S
from tests.examples import examples
from tests.inference.crowds import real_crowds
from tests.inference.operations import AT_LAST, COMMON, REST, Operation, happen, operations
from tests.inference.settled_transcription import calibrated


@pytest.fixture(scope="module")
def reference() -> Any:
    """The module of the reference; the test is skipped without it."""
    path = real_crowds().parent / "models" / "settled_reference.py"
    if not path.exists():
        pytest.skip("there is no models/settled_reference.py beside the folder SBIC_DATA")
    spec = spec_from_file_location("settled_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_built(reference: Any) -> Any:
    """The class of the reference with the θ and f of the engine, and with priors of tasks."""

    class AsBuilt(reference.Settled):  # type: ignore[misc]
        """The first three methods are what differs."""

        def model(
            self, a: float, n: float, said: list[float], pi: list[float], g: float, m: float
        ) -> tuple[float, list[float]]:
            even = 1 / self.K
            more = a - sum(p * v for p, v in zip(pi, said, strict=True)) + m * (g - even)
            theta = more / (n * (1 - sum(p * p for p in pi)) + m * (1 - even))
            theta = min(max(theta, -1.0), 1.0)
            left = self.s * (1 - theta) * even
            f = [(v - n * theta * p + left) / (n + self.s) for v, p in zip(said, pi, strict=True)]
            return theta, f

        def q0(self, theta: float, f: list[float], k: int) -> list[float]:
            return [max(theta * (k == x) + f[x], self.floor) for x in range(self.K)]

        def refresh(self, i: int) -> float:
            before: list[float] = self.P[i]
            pi, now = self.pi(), (self.g(), self.m(), self.S())
            z = [log(v) for v in self.own.get(i, pi)]
            used = []
            for j, x in self.labels[i]:
                (q, theta, f), c = self.rows(i, j, x, pi, *now), self.weight(i, j)
                z = [v + c * log(row[x]) for v, row in zip(z, q, strict=True)]
                used.append((j, x, theta, f[x], [row[x] ** c for row in q]))
            self.Z[i] = z
            new: list[float] = before if i in self.truth else reference.softmax(z)
            self.move(i, new, counts=i not in self.own)
            for j, x, theta, guessed, likely in used:
                others = [p / v for p, v in zip(new, likely, strict=True)]
                mu = others[x] / sum(others)
                d = (mu - pi[x]) / max(guessed + theta * mu, 0.05)  # with f + θ (μ - f) for f + θ μ
                self.tell(i, j, d * d * theta + d, d * d)
            return max(abs(u - v) for u, v in zip(new, before, strict=True))

        def calibrate(self, steps: int = 0) -> None:
            """The reference takes 100 steps, which may go to and fro where gold contradicts."""
            gold = [(self.X(i), y) for i, y in self.truth.items() if self.labels[i]]
            self.alpha, self.b = calibrated(gold, self.K)

        # The reference knows no priors of tasks, and gold is there for good.

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.own: dict[int, Sequence[float]] = {}

        def labels_of(self, i: int) -> Mapping[int, int]:
            return dict(self.labels.get(i, ()))

        def start(self, i: int) -> list[float]:
            return list(self.own.get(i, [1 / self.K] * self.K))

        def leave(self, i: int, sign: int) -> None:
            """A task leaves the sums for π, or comes back."""
            self.T -= sign
            for k, p in enumerate(self.P[i]):
                self.rho[k] -= sign * p

        def observe(self, i: int, j: int, x: int) -> None:
            if i not in self.P and i in self.own:
                self.P[i], self.labels[i] = self.start(i), []
            self.add(i, j, x)

        def retract(self, i: int, j: int) -> None:
            is_last = len(self.labels[i]) == 1 and i not in self.truth
            if is_last and i in self.own:
                self.truth[i] = 0  # such tasks, too, are not in the sums for π
                super().retract(i, j)
                del self.truth[i], self.P[i], self.Z[i], self.labels[i]
            else:
                super().retract(i, j)

        def set_gold(self, i: int, x: int | None) -> None:
            if x is not None:
                if i in self.own and i in self.P and i not in self.truth:
                    self.leave(i, -1)
                self.gold(i, x)
            elif i in self.truth:
                del self.truth[i]
                if self.labels[i]:
                    if i not in self.own:
                        self.leave(i, -1)
                    self.move(i, self.start(i), counts=i not in self.own)
                    self.refresh(i)
                else:
                    del self.P[i], self.Z[i], self.labels[i]
            elif i in self.P:
                self.refresh(i)

        def set_prior(self, i: int, prior: Sequence[float] | None) -> None:
            counts = bool(self.labels.get(i)) and i not in self.truth
            if counts and i not in self.own:
                self.leave(i, 1)
            self.own.pop(i, None)
            if prior is not None:
                self.own[i] = prior
            if counts and i not in self.own:
                self.leave(i, -1)
            if i in self.P:
                self.refresh(i)

    return AsBuilt


def test_the_vectors_of_the_reference_hold_there(reference: Any) -> None:
    for name, expected in reference.SMALL.items():
        assert reference.small(name) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    for (classes, gold, copies), expected in reference.VECTORS.items():
        found = reference.vector(reference.run(classes, gold, copies=copies))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(classes=st.integers(2, 6), drawn=operations(40))
@examples(150)
def test_the_engine_is_the_reference_but_for_theta_and_habits(
    reference: Any, classes: int, drawn: list[Operation]
) -> None:
    engine = Engine("settled", classes=classes, common=COMMON)
    literal = as_built(reference)(classes, common=COMMON)
    for operation in [*drawn, AT_LAST]:
        happen(operation, engine, literal)
        compare_inside(engine, literal)
        if operation[0] == "settle" and any(literal.labels.values()) and literal.settle(REST):
            engine.settle(REST)
            compare_inside(engine, literal)
            compare_published(engine, literal)


@pytest.mark.parametrize("classes", range(2, 7))
def test_judges_who_err_together_come_to_rest_where_the_reference_does(
    reference: Any, classes: int
) -> None:
    labels, truth = reference.example(classes, T=120)
    labels += [(i, 6, x) for i, j, x in labels if j == 1]  # a copy
    engine = Engine("settled", classes=classes, common=10)
    literal = as_built(reference)(classes, common=10)
    for label in labels:
        literal.add(*label)
    engine.take(*zip(*labels, strict=True))
    compare_inside(engine, literal)
    for gold in (0, 12):
        for i in range(gold):
            literal.gold(i, truth[i])
            engine.set_gold(i, truth[i])
        assert literal.settle(REST)
        engine.settle(REST)
        compare_inside(engine, literal)
        compare_published(engine, literal)
    assert literal.r > 0
    assert literal.copy


def compare_inside(engine: Engine, literal: Any) -> None:
    look(engine.state)
    crowd = literal.m(), literal.S(), literal.g()
    assert engine.state.crowd[[M, S, G]] == pytest.approx(crowd, rel=1e-9)
    for i in literal.P:
        assert engine.inner_beliefs([i])[0] == pytest.approx(literal.P[i], abs=1e-9)
        assert engine.votes([i])[0] == pytest.approx(literal.size(i), abs=1e-9)


def compare_published(engine: Engine, literal: Any) -> None:
    now = engine.outside
    in_force = [now.dependence, now.scale, *now.bias]
    assert in_force == pytest.approx([literal.r, literal.alpha, *literal.b], abs=1e-9)
    for i in literal.P:
        if literal.labels[i]:
            assert engine.beliefs([i])[0] == pytest.approx(literal.published(i), abs=1e-9)
    free = literal.uncalibrated()
    if len(literal.truth) > 1 and np.ptp([free[i] for i in literal.truth], axis=0).min() > 1e-3:
        expected = np.array([literal.prevalence(k) for k in range(literal.K)])
        assert pytest.approx(expected.T, abs=1e-9) == engine.prevalence()
