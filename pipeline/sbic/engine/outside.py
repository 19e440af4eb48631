"""What is published: beliefs discounted by the dependence of labels, and calibrated by gold.

Inside, labels count as independent; people, and models even more, err together. How far they do is
in the labels: with q the rows of a worker, normalised, n = Σ c the votes of a task, and over all
tasks with n > 1

    v_k(x) = log(q(x|k) / Σ_h π_h q(x|h)),    r_k = v_k(x) - Σ_y q(y|k) v_k(y)
    t = Σ_k P[k] ((Σ_j c r_k)² - Σ_j c r_k²),   u = (n - 1) Σ_k P[k] Σ_j c r_k²
    seen = max(0, Σ t - 2 √Σ t²) / Σ u,         ρ = seen² / (seen² + 0.05²)

n dependent votes are worth n / (1 + (n - 1) ρ) independent ones, so the score Z of a task counts as
X = Z / (1 + (n - 1) ρ), and softmax(a X + b) is published. Without gold a = 1 and b = 0; with gold
both are fitted to it. Nothing of this feeds back.
"""

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from sbic.engine.compiled import kernel
from sbic.engine.due import compare_told
from sbic.engine.formulas import FLOOR, LEAST, guesses, look, of_all, theta_of, vote_share
from sbic.engine.labels import Floats, Ints, softmax
from sbic.engine.state import (
    ANSWER,
    BELIEF,
    CHUNK,
    COPIES,
    FIRST,
    GIVEN,
    IS_HERE,
    LABELS,
    NEXT,
    NONE,
    PASS,
    PI,
    RIGHT,
    SAID,
    SO_FAR,
    SUM_APART,
    SUM_TOGETHER,
    SUM_TOGETHER_2,
    TASKS_KNOWN,
    WEIGHED,
    WHO,
    S,
    State,
)

KAPPA = 0.05  # a dependence that halves a vote


class Outside(NamedTuple):
    """What is published depends on: ρ, and a and b of the calibration."""

    dependence: float
    scale: float
    bias: Floats


@kernel
def _rows_of(state: State, i: int, j: int, x: int, q: Floats, mean: Floats) -> None:
    """Write the rows of worker j without task i, normalised, and their mean over the classes."""
    classes, worker, pi = state.by_class.shape[1], state.worker[j], state.by_class[PI]
    given, strength = worker[GIVEN] - 1.0, state.crowd[S]
    theta = theta_of(state, j, given, worker[RIGHT] - state.belief[i, BELIEF + x], x)
    floor = FLOOR / classes
    rows, totals = SAID + classes, SAID + classes + classes * classes
    for y in range(classes):
        mean[y] = 0.0
    for k in range(classes):
        belief, total = state.belief[i, BELIEF + k], 0.0
        for y in range(classes):
            own = 1.0 if y == x else 0.0
            guessed = guesses(state, given, worker[SAID + y] - own, theta, y)
            q0 = max(theta + guessed if k == y else guessed, floor)
            value = worker[rows + y * classes + k] - own * belief + strength * q0
            q[k, y] = max(value / (worker[totals + k] - belief + strength), LEAST)
            total += q[k, y]
        for y in range(classes):
            q[k, y] /= total
            mean[y] += pi[k] * q[k, y]


@kernel
def _depend(state: State, i: int, work: Floats) -> None:
    """Add task i to the three sums of the pass: Σ t, Σ u and Σ t²."""
    classes, votes = state.by_class.shape[1], 0.0
    summed, squares, mean, q = work[0], work[1], work[2], work[3:]
    for k in range(classes):
        summed[k] = squares[k] = 0.0
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            j, x = state.chunk[chunk, WHO + place], state.answer[chunk, ANSWER + place]
            share = vote_share(state, i, j) if state.worker_link[j, COPIES] else 1.0
            votes += share
            _rows_of(state, i, j, x, q, mean)
            for k in range(classes):
                r = log(q[k, x] / mean[x])
                for y in range(classes):
                    r -= q[k, y] * log(q[k, y] / mean[y])
                summed[k] += share * r
                squares[k] += share * r * r
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    if votes > 1:
        together = apart = 0.0
        for k in range(classes):
            belief = state.belief[i, BELIEF + k]
            together += belief * (summed[k] * summed[k] - squares[k])
            apart += belief * squares[k] * (votes - 1)
        state.crowd[SO_FAR] += together
        state.crowd[SO_FAR + 1] += apart
        state.crowd[SO_FAR + 2] += together * together


@kernel
def continue_pass(state: State, labels: int, work: Floats) -> bool:
    """Go on with the pass over all own tasks, about this many labels; True when it is complete."""
    look(state)
    if state.whole[PASS] == NONE:
        state.whole[PASS] = state.whole[WEIGHED] = 0
        for number in range(3):
            state.crowd[SO_FAR + number] = 0.0
    i, seen = state.whole[PASS], 0
    while i < state.whole[TASKS_KNOWN] and seen < labels:
        if state.task[i, IS_HERE] and state.task[i, LABELS] > 1:
            _depend(state, i, work)
            seen += state.task[i, LABELS]
        seen += 1
        i += 1
    state.whole[PASS] = i
    if i < state.whole[TASKS_KNOWN]:
        return False
    state.whole[PASS] = NONE
    for number in range(3):
        state.crowd[SUM_TOGETHER + number] = state.crowd[SO_FAR + number]
    return True


def dependence_seen(state: State) -> float:
    """Return the dependence that all labels show, two standard errors below its estimate."""
    apart = of_all(state, SUM_APART)
    together = of_all(state, SUM_TOGETHER) - 2 * sqrt(max(of_all(state, SUM_TOGETHER_2), 0.0))
    return max(0.0, together) / apart if apart > 0 else 0.0


def dependence_of(seen: float) -> float:
    """ρ: what part of a vote is not its own."""
    return seen**2 / (seen**2 + KAPPA**2)


@kernel
def follow_outside(state: State, first: int, end: int) -> None:
    """Let tasks move of which other probabilities are published with the numbers of now."""
    for i in range(first, end):
        compare_told(state, i)


def discounted(score: Floats, votes: Floats, rho: float) -> Floats:
    """X: each task's score, of which dependent votes leave less."""
    result: Floats = score / (1 + np.maximum(votes - 1, 0) * rho)[:, None]
    return result


# Gold: the calibration, and how frequent the classes are.


LEAST_CURVATURE = 0.05  # of the log-posterior; the priors alone have 2


def calibrated(
    x: Floats, truth: Ints, tau: float = 0.6, sigma: float = 0.7
) -> tuple[float, Floats]:
    """Fit α and b of softmax(α X + b) to gold: the most probable, log α ~ N(0, τ²), b ~ N(0, σ²).

    By Newton's steps of at most 0.5, or Fisher's where the posterior is not concave. Fisher's alone
    would go to and fro for ever where gold contradicts a confident prediction.

    >>> calibrated(np.zeros((0, 2)), np.zeros(0, np.int64))
    (1.0, array([0., 0.]))
    """
    classes = x.shape[1]
    at, spread = np.zeros(1 + classes), np.array([tau] + [sigma] * classes) ** 2
    is_true = truth[:, None] == np.arange(classes)
    for _ in range(100 if len(x) else 0):
        a = exp(at[0])
        p = softmax(a * x + at[1:])
        centred = a * (x - (p * x).sum(axis=1, keepdims=True))
        wrong = is_true - p
        slope = np.concatenate(([a * (wrong * x).sum()], wrong.sum(axis=0)))
        bend = np.diag(1 / spread)
        bend[0, 0] += (p * centred**2).sum() - slope[0]
        bend[0, 1:] += (p * centred).sum(axis=0)
        bend[1:, 0] = bend[0, 1:]
        bend[1:, 1:] += np.diag(p.sum(axis=0)) - p.T @ p
        if np.linalg.eigvalsh(bend)[0] < LEAST_CURVATURE:
            bend[0, 0] += slope[0]
        step = np.linalg.solve(bend, slope - at / spread)
        top = np.abs(step).max()
        at += step * min(1.0, 0.5 / max(top, 1e-300))
        if top < 1e-12:
            break
    return exp(at[0]), at[1:]


class Moments(NamedTuple):
    """Sums over tasks that predict a quantity, and over gold of which it is known: a column each.

    `every` has, over all `tasks`, the sums of the predictions f and of their squares; `known`, over
    the `golds` among them, those of the truth y, f, f² and y f. The moments of parts add up.
    """

    tasks: float
    every: Floats
    golds: float
    known: Floats

    @classmethod
    def of(cls, every: Floats, f: Floats, y: Floats) -> "Moments":
        """Return the moments of predictions, and of predictions and truths (0 or 1) of gold."""
        sums = np.stack((every.sum(axis=0), (every**2).sum(axis=0)))
        known = np.stack((y.sum(axis=0), f.sum(axis=0), (f**2).sum(axis=0), (y * f).sum(axis=0)))
        return cls(len(every), sums, len(f), known)

    @classmethod
    def of_shares(cls, f: Floats, golds: Ints) -> "Moments":
        """Those of the share of each class, by its probabilities and the gold class or -1."""
        is_gold = golds >= 0
        is_true = (golds[is_gold, None] == np.arange(f.shape[1])).astype(np.float64)
        return cls.of(f, f[is_gold], is_true)

    @classmethod
    def none(cls, columns: int) -> "Moments":
        """Those of no task."""
        return cls(0, np.zeros((2, columns)), 0, np.zeros((4, columns)))

    def plus(self, other: "Moments") -> "Moments":
        """Return the moments of both parts."""
        return Moments(
            self.tasks + other.tasks,
            self.every + other.every,
            self.golds + other.golds,
            self.known + other.known,
        )


def prediction_powered(moments: Moments, z: float = 1.645) -> Floats:
    """Return the means of y over all tasks and the half widths of their 90 % intervals: two rows.

    Two gold tasks at least, drawn at random. Angelopoulos, Duchi, Zrnic: *PPI++*, 2023.

    >>> f, y = np.array([[0.9], [0.2], [0.8], [0.4]]), np.array([[1.0], [0.0]])
    >>> prediction_powered(Moments.of(f, f[:2], y)).round(3).tolist()
    [[0.524], [0.354]]
    """
    tasks, every, golds, (y, f, f2, yf) = moments
    var_f = np.maximum(f2 - f * f / golds, 0) / (golds - 1)
    var_y = np.maximum(y - y * y / golds, 0) / (golds - 1)
    both = (yf - y * f / golds) / (golds - 1)
    power = np.clip(both / np.maximum(var_f * (1 + golds / tasks), 1e-9), 0, 1)
    mean = every[0] / tasks
    rest = np.maximum(var_y - 2 * power * both + power**2 * var_f, 0)
    spread = np.maximum(every[1] / tasks - mean**2, 0)
    variance = rest / golds + power**2 * spread / tasks
    return np.stack((power * mean + (y - power * f) / golds, z * np.sqrt(variance)))
