"""Honest settled: workers who confuse classes, a spread learned from the crowd, copies, gold.

Inside is a fixed point, at rest the same for every order of the labels. With P_i the belief of task
i, worker j has n labels, of which a are expected to be right and F_k are of class k; C[k][x] is the
sum of P_i[k] over the labels x, R[k] its sum over x, Q[k] the sum of P_i[k]². For a label (j, x) of
task i, with the counts of j without task i, and c the part of a vote that copies leave:

    π_k  = (ρ_k + 100/K) / (T + 100)
    g    = 0.8 (A + α) / (N + α + β) + 0.2 α / (α + β)
    p    = (a + m g) / (n + m),   f_k = (F_k + 16/K) / (n + 16),   h = Σ π_k f_k
    θ    = max((p - h) / (1 - h), -1)
    q0   = θ [x = k] + (1 - θ) f_x,   q(x|k) = (C[k][x] + S q0) / (R[k] + S)
    P_i  = softmax(log π_k + Σ c log q(x|k))

m says how alike workers are, S how far θ and f explain their rows: both are moments over the crowd.
Outside, `discounted` is what labels that err together are worth.

All labels that may ever stand have a slot; an answer of NONE is a label that does not stand.
"""

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import compiled, kernel
from sbic.engine.labels import Floats, Ints, Prior, softmax

NONE = -1
EVEN_TASKS, EVEN_LABELS, FLOOR, LEAST, SURE = 100.0, 16.0, 0.02, 1e-6, 1e-6
ANCHOR = 0.2
M_FIRST, M_LEAST, M_MOST, M_WEIGHT = 30.0, 8.0, 60.0, 300.0
THETA_FIRST, THETA_WEIGHT = 1 / 3, 100.0
S_LEAST, S_MOST, PHI_FIRST, PHI_WEIGHT = 64.0, 1024.0, 1 / 16, 2000.0
ALIKE, COMMON = 0.95, 50  # copies agree on more than this share of so many contested tasks
KAPPA = 0.05  # a dependence that halves a vote

# Indices of `crowd`.
N, A, T, ALPHA, BETA, G, M, S, SUM_Y, SUM_V, SUM_YY, SUM_YV, SUM_VV, SUM_WW, SUM_D, SUM_E = range(
    16
)
# Columns of `worker`; of `told`, `scratch` (from LIKELY on a column for each class).
GIVEN, RIGHT, Y, V, D, E = range(6)
THETA, HABIT, LIKELY = range(3)


class Honest(NamedTuple):
    """All arrays. The slots of task i are start[i] to start[i + 1]."""

    start: Ints
    who: Ints
    answer: Ints
    told: Floats
    belief: Floats
    score: Floats
    gold: Ints
    prior: Floats  # of each task, or zeros
    standing: Ints  # labels of each task
    worker: Floats
    said: Floats  # F
    rows: Floats  # C[j, x, k]
    total: Floats  # R
    square: Floats  # Q
    crowd: Floats
    rho: Floats
    pi: Floats
    change: Floats
    scratch: Floats
    copy_start: Ints
    copy_of: Ints
    copied: Floats


def empty(task: Ints, worker: Ints, tasks: int, workers: int, classes: int, prior: Prior) -> Honest:
    """Slots for these labels, sorted by task, none of which stands yet."""
    start = np.concatenate(([0], np.cumsum(np.bincount(task, minlength=tasks)))).astype(np.int64)
    crowd = np.zeros(16)
    crowd[[ALPHA, BETA]] = prior.alpha, prior.beta
    most = int(np.diff(start).max(initial=1))
    return Honest(
        start,
        np.ascontiguousarray(worker, np.int64),
        np.full(len(worker), NONE, np.int64),
        np.zeros((len(worker), 2)),
        np.full((tasks, classes), 1 / classes),
        np.full((tasks, classes), -log(classes)),
        np.full(tasks, NONE, np.int64),
        np.zeros((tasks, classes)),
        np.zeros(tasks, np.int64),
        np.zeros((workers, 6)),
        np.zeros((workers, classes)),
        np.zeros((workers, classes, classes)),
        np.zeros((workers, classes)),
        np.zeros((workers, classes)),
        crowd,
        np.zeros(classes),
        np.zeros(classes),
        np.zeros(classes),
        np.zeros((most, LIKELY + classes)),
        np.zeros(workers + 1, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0),
    )


@kernel
def look(h: Honest) -> None:
    """Write π, g, m and S of now."""
    crowd, pi = h.crowd, h.pi
    classes = len(pi)
    for k in range(classes):
        pi[k] = (h.rho[k] + EVEN_TASKS / classes) / (crowd[T] + EVEN_TASKS)
    alpha, beta = crowd[ALPHA], crowd[BETA]
    learned = (crowd[A] + alpha) / (crowd[N] + alpha + beta)
    crowd[G] = (1 - ANCHOR) * learned + ANCHOR * alpha / (alpha + beta)
    theta = (THETA_WEIGHT * THETA_FIRST + crowd[SUM_Y]) / (THETA_WEIGHT + crowd[SUM_V])
    theta = min(max(theta, 0.05), 0.95)
    right = theta + (1 - theta) / classes
    unit = (1 - 1 / classes) ** 2 / right + (1 - right) / (1 - theta) ** 2
    seen = crowd[SUM_YY] - 2 * theta * crowd[SUM_YV] + theta**2 * crowd[SUM_VV] - crowd[SUM_V]
    weight = M_WEIGHT * unit * unit
    spread = unit * (seen + weight / (M_FIRST * unit))
    spread /= max(crowd[SUM_VV] - crowd[SUM_WW], 0.0) + weight
    crowd[M] = M_MOST if spread * M_MOST <= 1 else max(1 / spread, M_LEAST)
    phi = (crowd[SUM_D] + PHI_WEIGHT * PHI_FIRST) / (crowd[SUM_E] + PHI_WEIGHT)
    crowd[S] = S_MOST if phi <= 0 or phi * phi * S_MOST <= 1 else max(1 / (phi * phi), S_LEAST)


@kernel
def vote_share(h: Honest, i: int, j: int) -> float:
    """c: the part of a vote that copies of worker j on task i leave."""
    others = 0.0
    for pair in range(h.copy_start[j], h.copy_start[j + 1]):
        for slot in range(h.start[i], h.start[i + 1]):
            if h.who[slot] == h.copy_of[pair] and h.answer[slot] != NONE:
                others += h.copied[pair]
    return 1 / (1 + others)


@kernel
def theta_of(h: Honest, j: int, given: float, right: float, x: int) -> float:
    """θ of worker j with these counts, without one label x (NONE: with all labels)."""
    pi, classes = h.pi, len(h.pi)
    p = (right + h.crowd[M] * h.crowd[G]) / (given + h.crowd[M])
    p = min(max(p, SURE), 1 - SURE)
    said = EVEN_LABELS / classes
    for k in range(classes):
        said += pi[k] * h.said[j, k]
    if x != NONE:
        said -= pi[x]
    by_habit = said / (given + EVEN_LABELS)
    return float(max((p - by_habit) / (1 - by_habit), -1.0))


@kernel
def refresh(h: Honest, i: int) -> float:
    """Recompute task i from its labels; return how far the probability of any class moved."""
    look(h)
    belief, score, classes = h.belief[i], h.score[i], len(h.pi)
    strength, first = h.crowd[S], h.start[i]
    for k in range(classes):
        score[k] = log(h.prior[i, k] if h.prior[i, k] > 0 else h.pi[k])
    for slot in range(first, h.start[i + 1]):
        x = h.answer[slot]
        if x == NONE:
            continue
        j, row = h.who[slot], h.scratch[slot - first]
        given = h.worker[j, GIVEN] - 1
        theta = theta_of(h, j, given, h.worker[j, RIGHT] - belief[x], x)
        habit = (h.said[j, x] - 1 + EVEN_LABELS / classes) / (given + EVEN_LABELS)
        row[THETA], row[HABIT] = theta, habit
        share = vote_share(h, i, j)
        for k in range(classes):
            q0 = max((1 - theta) * habit + (theta if k == x else 0.0), FLOOR / classes)
            q = h.rows[j, x, k] - belief[k] + strength * q0
            q = max(q / (h.total[j, k] - belief[k] + strength), LEAST)
            row[LIKELY + k] = q if share == 1 else q**share
            score[k] += share * log(q)
    for k in range(classes):
        h.change[k] = score[k]
    if h.gold[i] == NONE:
        to_softmax(h.change)
    else:
        for k in range(classes):
            h.change[k] = 1.0 if k == h.gold[i] else 0.0
    farthest = move(h, i, h.gold[i] == NONE and h.prior[i, 0] == 0)
    tell(h, i)
    return farthest


@kernel
def to_softmax(score: Floats) -> None:
    """Replace logarithms by probabilities."""
    most, total = score[0], 0.0
    for k in range(1, len(score)):
        most = max(most, score[k])
    for k in range(len(score)):
        score[k] = exp(score[k] - most)
        total += score[k]
    for k in range(len(score)):
        score[k] /= total


@kernel
def move(h: Honest, i: int, informs: bool) -> float:
    """Set the belief of task i to `change`, and update all counts; return the largest change."""
    belief, new, farthest = h.belief[i], h.change, 0.0
    for k in range(len(new)):
        farthest = max(farthest, abs(new[k] - belief[k]))
        if informs:
            h.rho[k] += new[k] - belief[k]
    for slot in range(h.start[i], h.start[i + 1]):
        x, j = h.answer[slot], h.who[slot]
        if x == NONE:
            continue
        h.worker[j, RIGHT] += new[x] - belief[x]
        h.crowd[A] += new[x] - belief[x]
        for k in range(len(new)):
            h.rows[j, x, k] += new[k] - belief[k]
            h.total[j, k] += new[k] - belief[k]
            h.square[j, k] += new[k] ** 2 - belief[k] ** 2
    for k in range(len(new)):
        belief[k] = new[k]
    return farthest


@kernel
def tell(h: Honest, i: int) -> None:
    """What the other labels of task i tell of θ of each of its workers."""
    belief, first = h.belief[i], h.start[i]
    for slot in range(first, h.start[i + 1]):
        x = h.answer[slot]
        if x == NONE:
            continue
        row, others = h.scratch[slot - first], 0.0
        for k in range(len(belief)):
            others += belief[k] / row[LIKELY + k]
        mu = belief[x] / row[LIKELY + x] / others
        d = (mu - h.pi[x]) / max(row[HABIT] + row[THETA] * (mu - row[HABIT]), 0.05)
        retell(h, slot, d * d * row[THETA] + d, d * d)


@kernel
def retell(h: Honest, slot: int, y: float, w: float) -> None:
    """Replace what a label tells, in the sums of its worker and of the crowd."""
    worker, crowd = h.worker[h.who[slot]], h.crowd
    more_y, more_w = y - h.told[slot, 0], w - h.told[slot, 1]
    crowd[SUM_Y] += more_y
    crowd[SUM_V] += more_w
    crowd[SUM_YY] += more_y * (2 * worker[Y] + more_y)
    crowd[SUM_VV] += more_w * (2 * worker[V] + more_w)
    crowd[SUM_YV] += more_y * worker[V] + more_w * worker[Y] + more_y * more_w
    crowd[SUM_WW] += w * w - h.told[slot, 1] ** 2
    worker[Y] += more_y
    worker[V] += more_w
    h.told[slot, 0], h.told[slot, 1] = y, w


@kernel
def compare(h: Honest, j: int) -> None:
    """D and E: how far the rows of worker j are from θ and f beyond sampling; out of how much."""
    look(h)
    apart = pairs = 0.0
    given, classes = h.worker[j, GIVEN], len(h.pi)
    if given > 0:
        theta = theta_of(h, j, given, h.worker[j, RIGHT], NONE)
        for k in range(classes):
            wide, far = 1.0, 0.0
            for x in range(classes):
                habit = (h.said[j, x] + EVEN_LABELS / classes) / (given + EVEN_LABELS)
                q0 = max((1 - theta) * habit + (theta if k == x else 0.0), FLOOR / classes)
                wide -= q0 * q0
                far += (h.rows[j, x, k] - h.total[j, k] * q0) ** 2
            wide, q = max(wide, 0.0), h.square[j, k]
            apart += far - wide * q
            pairs += wide * max(q * q - q, 0.0)
    h.crowd[SUM_D] += apart - h.worker[j, D]
    h.crowd[SUM_E] += pairs - h.worker[j, E]
    h.worker[j, D], h.worker[j, E] = apart, pairs


@kernel
def count(h: Honest, i: int, slot: int, sign: int) -> None:
    """Add the label in a slot to the counts, or remove it."""
    j, x, belief = h.who[slot], h.answer[slot], h.belief[i]
    h.standing[i] += sign
    h.worker[j, GIVEN] += sign
    h.worker[j, RIGHT] += sign * belief[x]
    h.said[j, x] += sign
    h.crowd[N] += sign
    h.crowd[A] += sign * belief[x]
    for k in range(len(belief)):
        h.rows[j, x, k] += sign * belief[k]
        h.total[j, k] += sign * belief[k]
        h.square[j, k] += sign * belief[k] ** 2


@kernel
def inform(h: Honest, i: int, sign: int) -> None:
    """Add task i to the sums for π, or remove it; gold and tasks with their own prior are not."""
    if h.gold[i] == NONE and h.prior[i, 0] == 0:
        h.crowd[T] += sign
        for k in range(len(h.rho)):
            h.rho[k] += sign * h.belief[i, k]


@kernel
def take(h: Honest, tasks: Ints, slots: Ints, answers: Ints) -> None:
    """Take labels in order; an answer replaces the one that stands, NONE takes it back."""
    for t in range(len(slots)):
        i, slot, x = tasks[t], slots[t], answers[t]
        j, known = h.who[slot], h.answer[slot]
        if x == known:
            continue
        if known != NONE:
            count(h, i, slot, -1)
            retell(h, slot, 0.0, 0.0)
            compare(h, j)
            h.answer[slot] = NONE
            if h.standing[i] == 0:
                inform(h, i, -1)
                begin(h, i)
            else:
                refresh(h, i)
        if x != NONE:
            if h.standing[i] == 0:
                inform(h, i, 1)
            h.answer[slot] = x
            count(h, i, slot, 1)
            refresh(h, i)
            compare(h, j)


@kernel
def begin(h: Honest, i: int) -> None:
    """Reset the belief of task i, which has no labels, unless it is gold."""
    for k in range(len(h.pi)):
        if h.gold[i] == NONE:
            h.belief[i, k] = h.prior[i, k] if h.prior[i, 0] > 0 else 1 / len(h.pi)


@kernel
def describe(h: Honest, i: int, gold: int, prior: Floats) -> None:
    """Set the truth of task i or NONE, and its own prior or zeros."""
    if h.standing[i] > 0:
        inform(h, i, -1)
    was_gold = h.gold[i] != NONE
    h.gold[i] = gold
    for k in range(len(prior)):
        h.prior[i, k] = prior[k]
    if h.standing[i] > 0:
        inform(h, i, 1)
    if gold != NONE or was_gold or h.standing[i] == 0:
        for k in range(len(prior)):
            h.change[k] = prior[k] if prior[0] > 0 else 1 / len(prior)
            if gold != NONE:
                h.change[k] = 1.0 if k == gold else 0.0
        move(h, i, h.standing[i] > 0 and gold == NONE and prior[0] == 0)
    if h.standing[i] > 0:
        refresh(h, i)


@kernel
def sweep(h: Honest) -> float:
    """Refresh every task and compare every worker once; return how far anything moved."""
    look(h)
    before, farthest = h.crowd[S], 0.0
    for i in range(len(h.gold)):
        if h.standing[i] > 0:
            farthest = max(farthest, refresh(h, i))
    for j in range(len(h.worker)):
        compare(h, j)
    look(h)
    return float(max(farthest, abs(h.crowd[S] / before - 1)))


@compiled
def agreements(h: Honest, task: Ints, common: int) -> tuple[Ints, Ints, Floats]:
    """Pairs of workers who agree on nearly all contested tasks, and the vote that they share."""
    workers = len(h.worker)
    order, contested = np.argsort(h.who, kind="mergesort"), np.zeros(len(h.gold), np.bool_)
    for i in range(len(h.gold)):
        seen = NONE
        for slot in range(h.start[i], h.start[i + 1]):
            x = h.answer[slot]
            if x != NONE and seen != NONE and x != seen:
                contested[i] = True
            seen = x if x != NONE else seen
    both, same = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    first, second, shared = [0 for _ in range(0)], [0 for _ in range(0)], [0.0 for _ in range(0)]
    place = 0
    for j in range(workers):
        begin, met = place, [0 for _ in range(0)]
        while place < len(order) and h.who[order[place]] == j:
            place += 1
        if h.worker[j, GIVEN] < common:
            continue
        for own in order[begin:place]:
            i, x = task[own], h.answer[own]
            if x == NONE or not contested[i]:
                continue
            for slot in range(h.start[i], h.start[i + 1]):
                other = h.who[slot]
                if h.answer[slot] == NONE or other == j:
                    continue
                if both[other] == 0:
                    met.append(other)
                both[other] += 1
                same[other] += h.answer[slot] == x
        for other in met:
            if both[other] >= common and same[other] > ALIKE * both[other]:
                first.append(j)
                second.append(other)
                shared.append(min((same[other] / both[other] - ALIKE) / (1 - ALIKE), 1.0))
            both[other] = same[other] = 0
    return np.array(first), np.array(second), np.array(shared)


def with_copies(h: Honest, task: Ints, common: int = COMMON) -> Honest:
    """Find the copies anew; `task` has the task of each slot."""
    first, second, shared = agreements(h, task, common)
    pairs = np.bincount(first.astype(np.int64), minlength=len(h.worker))
    start = np.concatenate(([0], np.cumsum(pairs))).astype(np.int64)
    return h._replace(copy_start=start, copy_of=second.astype(np.int64), copied=shared)


@kernel
def dependence(h: Honest, i: int, space: Floats) -> tuple[float, float, float]:
    """The share of task i in the three sums of dependence: t, u and t²."""
    classes, belief, votes = len(h.pi), h.belief[i], 0.0
    summed, squares, q, mean = space[0], space[1], space[2 : 2 + classes], space[2 + classes]
    summed[:] = 0.0
    squares[:] = 0.0
    for slot in range(h.start[i], h.start[i + 1]):
        x, j = h.answer[slot], h.who[slot]
        if x == NONE:
            continue
        share = vote_share(h, i, j)
        votes += share
        given = h.worker[j, GIVEN] - 1
        theta = theta_of(h, j, given, h.worker[j, RIGHT] - belief[x], x)
        mean[:] = 0.0
        for k in range(classes):
            total = 0.0
            for y in range(classes):
                own = 1.0 if y == x else 0.0
                habit = (h.said[j, y] - own + EVEN_LABELS / classes) / (given + EVEN_LABELS)
                q0 = max((1 - theta) * habit + (theta if k == y else 0.0), FLOOR / classes)
                value = h.rows[j, y, k] - own * belief[k] + h.crowd[S] * q0
                q[k, y] = max(value / (h.total[j, k] - belief[k] + h.crowd[S]), LEAST)
                total += q[k, y]
            for y in range(classes):
                q[k, y] /= total
                mean[y] += h.pi[k] * q[k, y]
        for k in range(classes):
            r = log(q[k, x] / mean[x])
            for y in range(classes):
                r -= q[k, y] * log(q[k, y] / mean[y])
            summed[k] += share * r
            squares[k] += share * r * r
    t = u = 0.0
    if votes > 1:
        for k in range(classes):
            t += belief[k] * (summed[k] ** 2 - squares[k])
            u += belief[k] * squares[k] * (votes - 1)
    return t, u, t * t


@kernel
def dependences(h: Honest, space: Floats, sums: Floats, votes: Floats) -> None:
    """Add up the three sums over all tasks, and write the votes of each task: Σ c."""
    look(h)
    for i in range(len(h.gold)):
        t, u, tt = dependence(h, i, space)
        sums[0] += t
        sums[1] += u
        sums[2] += tt
        for slot in range(h.start[i], h.start[i + 1]):
            if h.answer[slot] != NONE:
                votes[i] += vote_share(h, i, h.who[slot])


class Dependence(NamedTuple):
    """How much errors go together: as seen, and as the share of a vote; the votes of each task."""

    seen: float
    rho: float
    votes: Floats


def depend(h: Honest) -> Dependence:
    """Estimate the dependence two standard errors below what the labels show."""
    classes = len(h.pi)
    sums, votes = np.zeros(3), np.zeros(len(h.gold))
    dependences(h, np.zeros((3 + classes, classes)), sums, votes)
    seen = max(0.0, sums[0] - 2 * sqrt(sums[2])) / sums[1] if sums[1] > 0 else 0.0
    return Dependence(seen, seen**2 / (seen**2 + KAPPA**2), votes)


def discounted(score: Floats, votes: Floats, rho: float) -> Floats:
    """X: each task's score, of which dependent votes leave less."""
    result: Floats = score / (1 + np.maximum(votes - 1, 0) * rho)[:, None]
    return result


def calibrated(
    x: Floats, truth: Ints, tau: float = 0.6, sigma: float = 0.7
) -> tuple[float, Floats]:
    """The most probable α and b of softmax(α X + b) on gold, from log α ~ N(0, τ²), b ~ N(0, σ²).

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
        slope = np.concatenate(([a * (wrong * x).sum()], wrong.sum(axis=0))) - at / spread
        bend = np.diag(1 / spread)
        bend[0, 0] += (p * centred**2).sum()
        bend[0, 1:] += (p * centred).sum(axis=0)
        bend[1:, 0] = bend[0, 1:]
        bend[1:, 1:] += np.diag(p.sum(axis=0)) - p.T @ p
        step = np.linalg.solve(bend, slope)
        top = np.abs(step).max()
        at += step * min(1.0, 0.5 / max(top, 1e-300))
        if top < 1e-12:
            break
    return exp(at[0]), at[1:]


def prevalence(p: Floats, gold: Ints, truth: Ints, z: float = 1.645) -> NDArray[np.float64]:
    """The share of each class among all tasks and the half width of its 90 % interval: two rows.

    Prediction-powered (PPI++): `p` are the probabilities without calibration of all tasks, `gold`
    the tasks with a known truth, drawn at random, at least two.
    """
    f, y = p[gold], (truth[:, None] == np.arange(p.shape[1])).astype(np.float64)
    golds, tasks = len(gold), len(p)
    both = ((f - f.mean(axis=0)) * (y - y.mean(axis=0))).sum(axis=0) / (golds - 1)
    power = np.clip(both / np.maximum(f.var(axis=0, ddof=1) * (1 + golds / tasks), 1e-9), 0, 1)
    rest = y - power * f
    variance = rest.var(axis=0, ddof=1) / golds + power**2 * p.var(axis=0) / tasks
    return np.stack((power * p.mean(axis=0) + rest.mean(axis=0), z * np.sqrt(variance)))
