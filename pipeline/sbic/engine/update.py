"""A task's belief from its score, and the counts of workers and crowd that follow from it."""

from math import exp, log

import numpy as np

from sbic.engine.compiled import inlined, kernel
from sbic.engine.due import compare_told, has_moved, make_worker_due, worker_has_moved
from sbic.engine.formulas import (
    FLOOR,
    M_LEAST,
    add_up,
    guesses,
    look,
    reweigh,
    theta_of,
    weigh,
)
from sbic.engine.ledger import answer_of, following, task_of, worker_of
from sbic.engine.state import (
    ABOUT,
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ANSWER,
    BELIEF,
    CHANGE,
    CHUNK,
    COPIES,
    FIRST,
    FIXED,
    GIVEN,
    GOLD,
    GUESSED,
    IS_HERE,
    IS_SETTLED,
    LABELS,
    LIKELY,
    NEXT,
    NONE,
    ODDS,
    ON_GOLD,
    PATH,
    PI,
    PRIOR,
    RHO,
    RIGHT,
    RIGHT_ON_GOLD,
    SAID,
    SQUARES,
    SUM_D,
    SUM_E,
    SUM_V,
    SUM_VV,
    SUM_WW,
    SUM_Y,
    SUM_YV,
    SUM_YY,
    TASK_PATH,
    THETA,
    TOLERANCE,
    VOTES,
    WEIGHT,
    WHO,
    WORKER_IS_HERE,
    D,
    E,
    State,
    V,
    Y,
)


@kernel
def refresh(state: State, i: int) -> float:
    """Recompute the belief of task i; return how far the probability of any class moved.

    Gold does not move, nor does a task that another engine computes. Under Fast SBIC the log-odds
    of gold are still summed, since gold may be withdrawn.
    """
    if not state.whole[IS_SETTLED]:
        if state.task[i, IS_HERE]:
            add_up(state, i)
        return follow_score(state, i)
    if not (state.task[i, IS_HERE] and state.task[i, LABELS] > 0):
        return follow_score(state, i)
    votes = state.belief[i, VOTES]
    if state.task[i, GOLD] == NONE:
        reweigh(state, i)
    else:
        _reweigh_gold(state, i)
    if abs(state.belief[i, VOTES] - votes) > state.crowd[TOLERANCE]:
        has_moved(state, i)
    farthest = follow_score(state, i)
    compare_told(state, i)
    _tell_all(state, i)
    return farthest


@kernel
def _reweigh_gold(state: State, i: int) -> None:
    """Recompute the score of gold: its belief stands still, but the calibration follows it."""
    before, classes = state.by_class[CHANGE], state.by_class.shape[1]
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    for k in range(classes):
        before[k] = score[k] - score[0]
    reweigh(state, i)
    farthest = 0.0
    for k in range(classes):
        farthest = max(farthest, abs(score[k] - score[0] - before[k]))
    state.belief[i, TASK_PATH] += farthest
    if state.belief[i, TASK_PATH] > state.crowd[TOLERANCE]:
        has_moved(state, i)


@kernel
def follow_score(state: State, i: int) -> float:
    """Set the belief to the softmax of the score, or to certainty for gold."""
    change = state.by_class[CHANGE]
    classes = len(change)
    belief = state.belief[i, BELIEF : BELIEF + classes]
    gold = state.task[i, GOLD]
    if gold != NONE:
        for k in range(classes):
            change[k] = (1.0 if k == gold else 0.0) - belief[k]
        return move(state, i)
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    most = score[0]
    for k in range(1, classes):
        most = max(most, score[k])
    total = 0.0
    for k in range(classes):
        change[k] = exp(score[k] - most)
        total += change[k]
    for k in range(classes):
        change[k] = change[k] / total - belief[k]
    return move(state, i)


@inlined
def move(state: State, i: int) -> float:
    """Add CHANGE to the belief of task i and update the counts; return the largest change."""
    change = state.by_class[CHANGE]
    farthest = 0.0
    for k in range(len(change)):
        state.belief[i, BELIEF + k] += change[k]
        farthest = max(farthest, abs(change[k]))
    if farthest == 0.0:
        return 0.0
    if informs_prior(state, i):
        for k in range(len(change)):
            state.by_class[RHO, k] += change[k]
    _follow_belief(state, i, farthest)
    state.belief[i, TASK_PATH] += farthest
    if state.belief[i, TASK_PATH] > state.crowd[TOLERANCE]:
        has_moved(state, i)
    return farthest


@inlined
def _follow_belief(state: State, i: int, farthest: float) -> None:
    """Update the counts of own workers who answered task i."""
    change, squares = state.by_class[CHANGE], state.by_class[SQUARES]
    classes, worker, is_settled = len(change), state.worker, state.whole[IS_SETTLED]
    for k in range(classes):
        squares[k] = change[k] * (2 * state.belief[i, BELIEF + k] - change[k])
    tolerance = state.crowd[TOLERANCE] if is_settled else np.inf
    totals = SAID + classes + classes * classes
    right = 0.0
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            j = state.chunk[chunk, WHO + place]
            if not worker[j, WORKER_IS_HERE]:
                continue
            x = state.answer[chunk, ANSWER + place]
            right += change[x]
            worker[j, RIGHT] += change[x]
            if is_settled:
                rows = SAID + classes + x * classes
                for k in range(classes):
                    worker[j, rows + k] += change[k]
                    worker[j, totals + k] += change[k]
                    worker[j, totals + classes + k] += squares[k]
            worker[j, PATH] += farthest
            if worker[j, PATH] > tolerance * (worker[j, GIVEN] + M_LEAST):
                make_worker_due(state, j)
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    state.crowd[ALL_RIGHT] += right


# What labels tell of their workers' θ, and rows of how far they are from θ and f.


@inlined
def _tell_all(state: State, i: int) -> None:
    """Write what the other labels of task i tell of each own worker, from rows of `space`."""
    label = CHUNK * state.task[i, FIRST]
    for at in range(state.task[i, LABELS]):
        if state.worker[worker_of(state, label), WORKER_IS_HERE]:
            _tell(state, i, label, at)
        label = following(state, label)


@kernel
def tell_one(state: State, label: int) -> None:
    """As `refresh` does, for one label of an own worker on a task that another engine computes."""
    i, j = task_of(state, label), worker_of(state, label)
    share = state.share[label] if len(state.share) else 0.0  # 0: not told yet
    look(state)
    known = weigh(state, i, j, answer_of(state, label), 0)
    if state.worker_link[j, COPIES] and share > 0:
        for k in range(state.by_class.shape[1]):
            state.space[0, LIKELY + k] **= share / known  # not all copies' labels are known here
    _tell(state, i, label, 0)


@inlined
def _tell(state: State, i: int, label: int, at: int) -> None:
    """Set what a label tells of θ, from the probability that the others give to its answer.

    μ = (P[x] / q(x|x)) / Σ P[k] / q(x|k)
    d = (μ - π_x) / max(f_x + θ μ, 0.05)                w = d²,  y = w θ + d
    """
    space, x, others = state.space[at], answer_of(state, label), 0.0
    for k in range(state.by_class.shape[1]):
        others += state.belief[i, BELIEF + k] / space[LIKELY + k]
    mu = state.belief[i, BELIEF + x] / (space[LIKELY + x] * others)
    d = (mu - state.by_class[PI, x]) / max(space[GUESSED] + space[THETA] * mu, 0.05)
    retell(state, label, d * d * space[THETA] + d, d * d)


@inlined
def retell(state: State, label: int, y: float, w: float) -> None:
    """Replace what a label of an own worker tells, in the worker's sums and the crowd's."""
    classes, crowd, told = state.by_class.shape[1], state.crowd, state.told[label]
    worker = state.worker[worker_of(state, label), SAID + classes * (classes + 3) :]
    more_y, more_w = y - told[ABOUT], w - told[WEIGHT]
    crowd[SUM_Y] += more_y
    crowd[SUM_V] += more_w
    crowd[SUM_YY] += more_y * (2 * worker[Y] + more_y)
    crowd[SUM_VV] += more_w * (2 * worker[V] + more_w)
    crowd[SUM_YV] += more_y * worker[V] + more_w * worker[Y] + more_y * more_w
    crowd[SUM_WW] += w * w - told[WEIGHT] * told[WEIGHT]
    worker[Y] += more_y
    worker[V] += more_w
    told[ABOUT] = y
    told[WEIGHT] = w


@kernel
def compare(state: State, j: int) -> None:
    """D and E: how far C of own worker j is from θ and f beyond sampling; out of how much.

    D = Σ_k [Σ_x (C[k][x] - R[k] q0(x|k))² - b_k Q[k]]         b_k = 1 - Σ_x q0(x|k)²
    E = Σ_k b_k max(Q[k]² - Q[k], 0)
    """
    look(state)
    classes, worker, crowd = state.by_class.shape[1], state.worker[j], state.crowd
    rows, apart, pairs = SAID + classes, 0.0, 0.0
    totals = rows + classes * classes
    given = worker[GIVEN]
    if given > 0:
        theta = theta_of(state, j, given, worker[RIGHT], NONE)
        floor = FLOOR / classes
        guessed = state.by_class[ODDS]
        for x in range(classes):
            guessed[x] = guesses(state, given, worker[SAID + x], theta, x)
        for k in range(classes):
            wide, far, total = 1.0, 0.0, worker[totals + k]
            for x in range(classes):
                q0 = max(theta + guessed[x] if k == x else guessed[x], floor)
                wide -= q0 * q0
                off = worker[rows + x * classes + k] - total * q0
                far += off * off
            wide, q = max(wide, 0.0), worker[totals + classes + k]
            apart += far - wide * q
            pairs += wide * max(q * q - q, 0.0)
    crowd[SUM_D] += apart - state.apart[j, D]
    crowd[SUM_E] += pairs - state.apart[j, E]
    state.apart[j, D] = apart
    state.apart[j, E] = pairs


@kernel
def add_to_path(state: State, j: int, far: float) -> None:
    """Add to the path of worker j's counts; beyond the tolerance, the worker's tasks are due."""
    if state.whole[IS_SETTLED]:
        worker = state.worker[j]
        worker[PATH] += far
        if worker[PATH] > state.crowd[TOLERANCE] * (worker[GIVEN] + M_LEAST):
            make_worker_due(state, j)


@inlined
def count(state: State, i: int, j: int, x: int, sign: int) -> None:
    """Add a label on task i to the counts of worker j, or remove it, if they are kept here."""
    if not state.worker[j, WORKER_IS_HERE]:
        return
    right = sign * state.belief[i, BELIEF + x]
    worker = state.worker[j]
    worker[GIVEN] += sign
    worker[RIGHT] += right
    worker[SAID + x] += sign
    if state.whole[IS_SETTLED]:
        count_rows(state, i, j, x, sign)
    state.crowd[ALL_GIVEN] += sign
    state.crowd[ALL_RIGHT] += right
    count_on_gold(state, state.task[i, GOLD], j, x, sign)
    add_to_path(state, j, 1.0)


@inlined
def count_rows(state: State, i: int, j: int, x: int, sign: int) -> None:
    """Add a label on task i to C, R and Q of worker j, or remove it."""
    classes, worker = state.by_class.shape[1], state.worker[j]
    rows, totals = SAID + classes + x * classes, SAID + classes + classes * classes
    for k in range(classes):
        belief = state.belief[i, BELIEF + k]
        worker[rows + k] += sign * belief
        worker[totals + k] += sign * belief
        worker[totals + classes + k] += sign * belief * belief


@kernel
def count_on_gold(state: State, gold: int, j: int, x: int, sign: int) -> None:
    """Add or remove a label of worker j on gold of this class; NONE is not gold."""
    if gold != NONE:
        state.worker_link[j, ON_GOLD] += sign
        if x == gold:
            state.worker_link[j, RIGHT_ON_GOLD] += sign


@kernel
def informs_prior(state: State, i: int) -> bool:
    """Whether the class prior is learned from task i: not if it has gold or its own prior."""
    task = state.task[i]
    return bool(
        state.whole[IS_SETTLED]
        and task[IS_HERE]
        and task[LABELS] > 0
        and task[GOLD] == NONE
        and task[PRIOR] == NONE
    )


@kernel
def add_to_prior(state: State, i: int, sign: int) -> None:
    """Add task i to the crowd's sums, or remove it."""
    state.crowd[ALL_TASKS] += sign
    for k in range(state.by_class.shape[1]):
        state.by_class[RHO, k] += sign * state.belief[i, BELIEF + k]


@kernel
def begin(state: State, i: int) -> None:
    """Reset task i, which has no labels, to its prior, or to certainty for gold."""
    classes = state.by_class.shape[1]
    belief = state.belief[i, BELIEF : BELIEF + classes]
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    row = state.task[i, PRIOR]
    for k in range(classes):
        if row != NONE:
            belief[k] = state.priors[row, k]
        elif state.whole[IS_SETTLED]:
            belief[k] = 1.0 / classes
        else:
            belief[k] = state.by_class[FIXED, k]
        score[k] = log(belief[k])
    state.belief[i, VOTES] = 0.0
    if not state.whole[IS_SETTLED]:
        add_up(state, i)
    gold = state.task[i, GOLD]
    if gold != NONE:
        for k in range(classes):
            belief[k] = 1.0 if k == gold else 0.0


# What is set for a task apart from its labels: where it begins, gold, and its own prior.


@kernel
def begin_all(state: State, first: int, end: int) -> None:
    """Reset these new tasks to the prior."""
    for i in range(first, end):
        begin(state, i)


@kernel
def describe(state: State, i: int, gold: int, prior: int) -> None:
    """Set the gold class of task i and its row of `priors`; NONE for either."""
    if informs_prior(state, i):
        add_to_prior(state, i, -1)
    was_gold = state.task[i, GOLD] != NONE
    set_gold(state, i, gold)
    state.task[i, PRIOR] = prior
    if informs_prior(state, i):
        add_to_prior(state, i, 1)
    if state.task[i, IS_HERE] and (state.task[i, LABELS] == 0 or (was_gold and gold == NONE)):
        _begin_again(state, i)
    elif gold != NONE:
        follow_score(state, i)  # first: the average accuracy weighs its labels
    refresh(state, i)
    has_moved(state, i)


@kernel
def set_gold(state: State, i: int, gold: int) -> None:
    """Set the gold class of task i, or NONE, and update its own workers' counts on gold."""
    known = state.task[i, GOLD]
    if known == gold:
        return
    label = CHUNK * state.task[i, FIRST]
    for _ in range(state.task[i, LABELS]):
        j, x = worker_of(state, label), answer_of(state, label)
        if state.worker[j, WORKER_IS_HERE]:
            count_on_gold(state, known, j, x, -1)
            count_on_gold(state, gold, j, x, 1)
            worker_has_moved(state, j)  # even if the belief has not
        label = following(state, label)
    state.task[i, GOLD] = gold


@kernel
def _begin_again(state: State, i: int) -> None:
    """As `begin`, for a task that may have labels: updates the counts of their workers."""
    change = state.by_class[CHANGE]
    belief = state.belief[i, BELIEF : BELIEF + len(change)]
    for k in range(len(change)):
        change[k] = -belief[k]
    begin(state, i)
    for k in range(len(change)):
        start, belief[k] = belief[k], -change[k]
        change[k] += start
    move(state, i)
