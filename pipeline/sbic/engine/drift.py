"""Drift: whether a worker answers otherwise than before, from how surprising their labels are.

When worker j gives label x on task i, with H the published probabilities of the task without it, as
known here then, and q the worker's rows, normalised, from all other labels,

    p_l = Σ_k H[k] q(l|k)            s = -log p_x + Σ_l p_l log p_l
    z   = clip((s - mean) / spread, -3, 3)
    up  = max(0, up + z - 1/4)       down = max(0, down - z - 1/4)       an alarm: above 14

a two-sided CUSUM (Page, Biometrika 1954), with the worker's own mean and spread of s over about
the last 1,000 labels. Since when: the first label after `up` or `down` was last 0. After an alarm
the mean, the spread and the sums begin anew; it ends after 1,000 labels without another. This is
about time: labels in another order give other alarms, and labels that are restored give none.
"""

from math import log, sqrt

from sbic.engine.compiled import kernel
from sbic.engine.due import publish
from sbic.engine.formulas import look
from sbic.engine.outside import _rows_of
from sbic.engine.state import (
    GOLD,
    NONE,
    PI,
    VOTES,
    WORKER_IS_HERE,
    State,
)

# Columns of `drift`; times are those of labels, in milliseconds.
SEEN, MEAN, SPREAD, UP, DOWN, UP_SINCE, DOWN_SINCE, DRIFTING, QUIET = range(9)

SLACK, ALARM, CLIP = 0.25, 14.0, 3.0
LEARNED = 50  # labels from which the mean and the spread are learned before any is judged
WINDOW = 1000.0
CALM = 1000  # labels without an alarm after which the last one ends
LEAST_SPREAD = 0.05
MOST_CLASSES = 20  # with more, the rows of a worker would take longer than all else


@kernel
def watch(state: State, i: int, j: int, x: int, time: int) -> None:
    """Update the drift of own worker j by a label in its counts that is not in its task yet."""
    classes = state.by_class.shape[1]
    if not state.worker[j, WORKER_IS_HERE] or classes > MOST_CLASSES:
        return
    look(state)
    h, mean, q = state.work[0], state.work[1], state.work[2:]
    _rows_of(state, i, j, x, q, mean)
    gold = state.task[i, GOLD]
    if gold == NONE and state.belief[i, VOTES] > 0:
        publish(state, i, h)
    else:
        for k in range(classes):
            h[k] = state.by_class[PI, k] if gold == NONE else (1.0 if k == gold else 0.0)
    surprise = 0.0
    for y in range(classes):
        p = 0.0
        for k in range(classes):
            p += h[k] * q[k, y]
        surprise += (p - 1.0 if y == x else p) * log(p)
    _add(state, j, surprise, time)


@kernel
def _add(state: State, j: int, surprise: float, time: int) -> None:
    drift = state.drift[j]
    if drift[SEEN] >= LEARNED:
        z = (surprise - drift[MEAN]) / max(sqrt(drift[SPREAD]), LEAST_SPREAD)
        z = min(max(z, -CLIP), CLIP)
        if drift[UP] == 0.0:
            drift[UP_SINCE] = time
        if drift[DOWN] == 0.0:
            drift[DOWN_SINCE] = time
        drift[UP] = max(drift[UP] + z - SLACK, 0.0)
        drift[DOWN] = max(drift[DOWN] - z - SLACK, 0.0)
        drift[QUIET] += 1
        if max(drift[UP], drift[DOWN]) > ALARM:
            if drift[DRIFTING] == 0.0:
                drift[DRIFTING] = drift[UP_SINCE] if drift[UP] > ALARM else drift[DOWN_SINCE]
            for number in (SEEN, MEAN, SPREAD, UP, DOWN, QUIET):
                drift[number] = 0.0
        elif drift[QUIET] >= CALM:
            drift[DRIFTING] = 0.0
    drift[SEEN] += 1
    share = 1.0 / min(drift[SEEN], WINDOW)
    off = surprise - drift[MEAN]
    drift[MEAN] += share * off
    drift[SPREAD] += share * (off * (surprise - drift[MEAN]) - drift[SPREAD])
