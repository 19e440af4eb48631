"""Classes that have an order, as grades do: wrong answers are more often near than far.

A worker who does not know the answer guesses by habit, and near the truth. With d = |x - k|, and as
in `formulas` but for these,

    u(x|k)  = 0.6^d / Σ_y 0.6^|y - k|
    c_x     = t π_x + (1 - t) Σ_k π_k u(x|k),   t = (g - Σ π_k u(k|k)) / (1 - Σ π_k u(k|k)) ≥ 0
    γ       = 1 - (2 T / N)², at least 0
    f_x     ∝ (F_x + 16 c_x) c_x^-γ
    r       = (X + 20 r*) / (Z + 20)          in 0.05 .. 1
    h(x|k)  = f_x r^d / Σ_y f_y r^|y - k|
    θ       = (p - Σ π_k h(k|k)) / (1 - Σ π_k h(k|k)) ≥ -1,     p = (a + m g) / (n + m)
    q0(x|k) = θ [x = k] + (1 - θ) h(x|k)

r is the worker's spread: X = Σ C[k][x] (d - 1)⁺ is how far wrong answers are beyond the next class,
and Z = (n - a) Σ_k R[k] Σ_x f_x (d - 1)⁺ / Σ_k R[k] (1 - f_k) how far they would be by habit alone;
r* = (Σ X + 50 · 0.6) / (Σ Z + 50) is the crowd's. f is the worker's bias: which answers they give
more often than c, those of a worker without habits, makes expect. How frequent the classes are is
hardly known where tasks have one or two labels; there γ is 0, and all that is frequent is habit.

A shift of k by a bias of each worker's own in place of f was tried and left (docs/decisions.md).
"""

from sbic.engine.compiled import inlined, kernel
from sbic.engine.labels import Floats
from sbic.engine.state import (
    ANSWERED,
    BELIEF,
    FAR,
    GIVEN,
    HABIT,
    KNOWN,
    LIFT,
    NEAR,
    NONE,
    PI,
    RIGHT,
    SAID,
    WITHIN,
    G,
    M,
    State,
)

NEAR_FIRST, NEAR_CROWD, NEAR_WEIGHT, NEAR_LEAST = 0.6, 50.0, 20.0, 0.05
HABIT_WEIGHT = 16.0
KNOWN_FROM = 2.0  # labels per task


@kernel
def expect(state: State) -> None:
    """Write c and c^-γ of now, from π, g and γ."""
    pi, answered, within = state.by_class[PI], state.by_class[ANSWERED], state.by_class[WITHIN]
    lift, known = state.by_class[LIFT], state.crowd[KNOWN]
    classes, hit = len(pi), 0.0
    for k in range(classes):
        lift[k] = 1.0
    _spread(lift, NEAR_FIRST, within)
    for k in range(classes):
        lift[k] = pi[k] / within[k]
        hit += lift[k]
    _spread(lift, NEAR_FIRST, answered)
    t = max((state.crowd[G] - hit) / (1 - hit), 0.0)
    for k in range(classes):
        answered[k] = t * pi[k] + (1 - t) * answered[k]
        lift[k] = answered[k] ** -known


@inlined
def _spread(values: Floats, near: float, found: Floats) -> None:
    """found_k = Σ_x values_x near^|x - k|, in one pass up and one down."""
    run = 0.0
    for k in range(len(values)):
        run = run * near + values[k]
        found[k] = run
    run = 0.0
    for k in range(len(values) - 1, -1, -1):
        found[k] += run
        run = (run + values[k]) * near


@kernel
def shape(state: State, i: int, j: int, x: int) -> tuple[float, float, float]:
    """Write f of worker j to HABIT and Σ_y f_y r^|y - k| to WITHIN; return θ, r and Z.

    Without the label x on task i, or with all labels where x is NONE.
    """
    habit, within, pi = state.by_class[HABIT], state.by_class[WITHIN], state.by_class[PI]
    worker, crowd, classes = state.worker[j], state.crowd, len(pi)
    totals = SAID + classes + classes * classes
    given, right, far = worker[GIVEN], worker[RIGHT], worker[totals + 2 * classes + FAR]
    if x != NONE:
        given -= 1.0
        right -= state.belief[i, BELIEF + x]
        far -= far_off(state.belief[i], BELIEF, x, classes)
    total = 0.0
    for k in range(classes):
        said = worker[SAID + k] - (1.0 if k == x else 0.0)
        habit[k] = (said + HABIT_WEIGHT * state.by_class[ANSWERED, k]) * state.by_class[LIFT, k]
        total += habit[k]
    above = 0.0  # Σ f_x (x - k - 1)⁺ for k = 0
    for k in range(classes):
        habit[k] /= total
        above += habit[k] * max(k - 1, 0)
    off = apart = below = 0.0
    up_to, beyond = 0.0, 1.0 - habit[0]  # Σ f_x up to k - 1, and from k + 1 on
    for k in range(classes):
        labels = worker[totals + k]
        if x != NONE:
            labels -= state.belief[i, BELIEF + k]
        off += labels * (above + below)
        apart += labels * (1 - habit[k])
        below += up_to
        up_to += habit[k]
        if k + 1 < classes:
            beyond -= habit[k + 1]
            above -= beyond
    by_habit = max(given - right, 0.0) * off / apart if apart > 1e-9 else 0.0
    near = (max(far, 0.0) + NEAR_WEIGHT * crowd[NEAR]) / (by_habit + NEAR_WEIGHT)
    near = min(max(near, NEAR_LEAST), 1.0)
    _spread(habit, near, within)
    hit = 0.0
    for k in range(classes):
        hit += pi[k] * habit[k] / within[k]
    p = min(max((right + crowd[M] * crowd[G]) / (given + crowd[M]), 1e-6), 1 - 1e-6)
    return max((p - hit) / (1 - hit), -1.0), near, by_habit


@kernel
def write_rows(state: State, j: int, q0: Floats) -> float:
    """Write q0 of worker j with all labels, a row for each true class; return θ."""
    theta, near, _ = shape(state, NONE, j, NONE)
    for k in range(len(q0)):
        for x in range(len(q0)):
            q0[k, x] = (1 - theta) * guess(state, near, x, k) + (theta if x == k else 0.0)
    return theta


@kernel
def far_off(beliefs: Floats, first: int, x: int, classes: int) -> float:
    """Σ P[k] (|x - k| - 1)⁺; the probabilities of the classes begin at `first`."""
    far = 0.0
    for k in range(classes):
        far += beliefs[first + k] * max(abs(x - k) - 1, 0)
    return far


@inlined
def guess(state: State, near: float, x: int, k: int) -> float:
    """h(x|k) of the worker whose shape was written last."""
    return float(state.by_class[HABIT, x] * near ** abs(x - k) / state.by_class[WITHIN, k])
