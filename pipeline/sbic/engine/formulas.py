"""The formulas of both algorithms: how much a label weighs."""

from math import log

from sbic.engine.compiled import inlined, kernel
from sbic.engine.ledger import following
from sbic.engine.state import (
    ALL_GIVEN,
    ALL_RIGHT,
    ALL_TASKS,
    ALPHA,
    ANSWER,
    BELIEF,
    BETA,
    CHUNK,
    COPIES,
    DIVERSE,
    ELSEWHERE,
    FIRST,
    FIRST_COPY,
    FIXED,
    GIVEN,
    GUESSED,
    HOLD,
    IS_LEARNED,
    LABELS,
    LIKELY,
    NEXT,
    NONE,
    ODDS,
    PI,
    PRIOR,
    PULL,
    RHO,
    RHO_ELSEWHERE,
    RIGHT,
    SAID,
    SUM_D,
    SUM_E,
    SUM_V,
    SUM_VV,
    SUM_WW,
    SUM_Y,
    SUM_YV,
    SUM_YY,
    THETA,
    VOTES,
    WEIGHED,
    WHO,
    G,
    M,
    S,
    State,
)

SCORE = BELIEF + 2  # after the probabilities of two classes


@kernel
def log_weight(labels: float, correct: float, alpha: float, beta: float) -> float:
    """log(p / (1 - p)) of a worker with c of n labels right: p = (c + α) / (n + α + β) (line 5).

    c is a sum of differences: rounding may leave it slightly outside [0, n], which matters if α or
    β is smaller still.
    """
    correct = min(max(correct, 0.0), labels)
    return log((correct + alpha) / (labels - correct + beta))


@kernel
def vote_of(state: State, j: int, x: int) -> float:
    """Return the vote of an answer of worker j: what it adds to its task's log-odds (line 6)."""
    given, right = state.worker[j, GIVEN], state.worker[j, RIGHT]
    weight = log_weight(given, right, state.crowd[ALPHA], state.crowd[BETA])
    return weight if x == 1 else -weight


@kernel
def add_up(state: State, i: int) -> None:
    """Set the log-odds of task i: its prior (line 1) plus its votes, in order."""
    row = state.task[i, PRIOR]
    prior = state.by_class[FIXED] if row == NONE else state.priors[row]
    log_odds = log(prior[1] / prior[0])
    label = CHUNK * state.task[i, FIRST]
    for _ in range(state.task[i, LABELS]):
        log_odds += state.vote[label]
        label = following(state, label)
    state.belief[i, SCORE] = 0.0
    state.belief[i, SCORE + 1] = log_odds


# Settled: weighs every label by the current estimate of its worker, without the label's own task.
#
# A worker knows the answer with probability θ, and otherwise guesses by habit: MACE (Hovy et al.,
# NAACL 2013) under collapsed variational inference of order zero (CVB0; Asuncion et al., UAI 2009).
# θ compares how often they are right with how often the same answers would be if they did not
# depend on the truth; f is what guesses add to each class: the answers that knowing does not
# explain. (The frequencies of all answers in its place would take the imbalance of the classes for
# a habit: rare classes would be hard to believe, and a misfit common to all workers looks like
# dependence.)
# With labels, the rows of what they answer grow out of θ and f into a confusion matrix: Dawid and
# Skene (Applied Statistics 1979).
# Worker j has n labels, of which a are expected to be right and F_k are of class k; C[k][x] is the
# sum of the beliefs in k over the labels x, R[k] its sum over x. The crowd has N labels, of which A
# are expected to be right, on T tasks, whose beliefs sum to ρ:
#
#     π_k = (ρ_k + 100/K) / (T + 100)               the classes are not equally frequent
#     g   = 0.8 (A + α) / (N + α + β) + 0.2 α / (α + β)    the average accuracy, anchored
#     for each label (j, x) of task i, with the counts of j without task i:
#         θ   = (a - Σ π_k F_k + m (g - 1/K)) / (n (1 - Σ π_k²) + m (1 - 1/K))   in -1 .. 1
#         f_x = (F_x - n θ π_x + 16 (1 - θ)/K) / (n + 16)
#         q0(x|k) = θ [x = k] + f_x
#         q(x|k)  = (C[k][x] + S q0(x|k)) / (R[k] + S)
#     P_i = softmax(log π_k + Σ c log q(x|k))
#
# c is the part of a vote that copies leave. m says how alike workers are, S how far θ and f explain
# their rows: both are moments over the crowd (see `tell` and `compare` in `update`).


EVEN_LABELS = 16.0  # weight of equal guesses in f, in labels
EVEN_TASKS = 100.0  # weight of equal frequencies in π, in tasks
ANCHOR = 0.2  # weight of the prior accuracy in g: beliefs alone could sink to chance
FLOOR = 0.02  # lower limit of q0, summed over the classes
LEAST = 1e-6  # lower limit of q
MULTIPLIED = 32  # likelihoods multiplied at most before taking the logarithm: none underflows

M_FIRST, M_LEAST, M_MOST, M_WEIGHT = 30.0, 8.0, 60.0, 300.0
THETA_FIRST, THETA_LEAST, THETA_WEIGHT = 1 / 3, 0.05, 100.0
S_LEAST, S_MOST, PHI_FIRST, PHI_WEIGHT = 64.0, 1024.0, 1 / 16, 2000.0


@kernel
def of_all(state: State, number: int) -> float:
    """Return a sum over the crowd, of this engine and all others."""
    return float(state.crowd[number] + state.crowd[number + ELSEWHERE])


@kernel
def class_prior(state: State) -> None:
    """Write π, the prior of tasks without their own, to PI."""
    pi = state.by_class[PI]
    classes = len(pi)
    if not state.whole[IS_LEARNED]:
        for k in range(classes):
            pi[k] = state.by_class[FIXED, k]
        return
    share = 1.0 / (of_all(state, ALL_TASKS) + EVEN_TASKS)
    for k in range(classes):
        rho = state.by_class[RHO, k] + state.by_class[RHO_ELSEWHERE, k]
        pi[k] = (rho + EVEN_TASKS / classes) * share


@kernel
def look(state: State) -> None:
    """Write π, g, m and S of now.

    τ is the crowd's θ, and v the variance of θ among workers beyond that of sampling:

        τ = (100/3 + Σ Y) / (100 + Σ V)          r = τ + (1 - τ)/K
        u = (1 - 1/K)² / r + (1 - r) / (1 - τ)²
        v = u (Σ [(Y - τ V)² - V] + 10 u) / (Σ V² - Σ w² + 300 u²)     m = 1/v
        φ = (Σ D + 125) / (Σ E + 2000)                                 S = 1/φ²
    """
    class_prior(state)
    crowd, classes = state.crowd, state.by_class.shape[1]
    alpha, beta = crowd[ALPHA], crowd[BETA]
    learned = (of_all(state, ALL_RIGHT) + alpha) / (of_all(state, ALL_GIVEN) + alpha + beta)
    crowd[G] = (1 - ANCHOR) * learned + ANCHOR * alpha / (alpha + beta)
    v, vv = of_all(state, SUM_V), of_all(state, SUM_VV)
    tau = (THETA_WEIGHT * THETA_FIRST + of_all(state, SUM_Y)) / (THETA_WEIGHT + v)
    tau = min(max(tau, THETA_LEAST), 1 - THETA_LEAST)
    right = tau + (1 - tau) / classes
    unit = (1 - 1 / classes) ** 2 / right + (1 - right) / ((1 - tau) * (1 - tau))
    seen = of_all(state, SUM_YY) - 2 * tau * of_all(state, SUM_YV) + tau * tau * vv - v
    weight = M_WEIGHT * unit * unit
    spread = unit * (seen + M_WEIGHT / M_FIRST * unit)
    pairs = max(vv - of_all(state, SUM_WW), 0.0) + weight
    crowd[M] = M_MOST if spread * M_MOST <= pairs else max(pairs / spread, M_LEAST)
    phi = (of_all(state, SUM_D) + PHI_WEIGHT * PHI_FIRST) / (of_all(state, SUM_E) + PHI_WEIGHT)
    crowd[S] = S_MOST if phi <= 0 or phi * phi * S_MOST <= 1 else max(1 / (phi * phi), S_LEAST)
    crowd[PULL] = crowd[M] * (crowd[G] - 1 / classes)
    crowd[HOLD] = crowd[M] * (1 - 1 / classes)
    crowd[DIVERSE] = 1.0
    for k in range(classes):
        crowd[DIVERSE] -= state.by_class[PI, k] ** 2


@kernel
def vote_share(state: State, i: int, j: int) -> float:
    """c: the part of the vote of worker j on task i that copies leave."""
    others = 0.0
    first = state.worker_link[j, FIRST_COPY]
    for pair in range(first, first + state.worker_link[j, COPIES]):
        chunk, left = state.task[i, FIRST], state.task[i, LABELS]
        while left > 0:
            for place in range(min(left, CHUNK)):
                if state.chunk[chunk, WHO + place] == state.copy[pair]:
                    others += state.copied[pair]
            left -= CHUNK
            chunk = state.chunk[chunk, NEXT]
    return 1 / (1 + others)


@inlined
def theta_of(state: State, j: int, given: float, right: float, x: int) -> float:
    """θ of worker j with these counts, without one label x (NONE: with all labels)."""
    pi, crowd = state.by_class[PI], state.crowd
    more = right + crowd[PULL]
    for k in range(len(pi)):
        more -= pi[k] * state.worker[j, SAID + k]
    if x != NONE:
        more += pi[x]
    return float(min(max(more / (given * crowd[DIVERSE] + crowd[HOLD]), -1.0), 1.0))


@inlined
def guesses(state: State, given: float, said: float, theta: float, x: int) -> float:
    """f_x of a worker with this θ, of whose labels `said` are of class x."""
    pi = state.by_class[PI]
    even = EVEN_LABELS * (1 - theta) / len(pi)
    return float((said - given * theta * pi[x] + even) / (given + EVEN_LABELS))


@inlined
def weigh(state: State, i: int, j: int, x: int, at: int) -> float:
    """Write θ, f and q(x|k) of worker j without task i to a row of `space`; return c."""
    classes = state.by_class.shape[1]
    worker, space = state.worker[j], state.space[at]
    strength, given = state.crowd[S], worker[GIVEN] - 1.0
    theta = theta_of(state, j, given, worker[RIGHT] - state.belief[i, BELIEF + x], x)
    guessed, floor = guesses(state, given, worker[SAID + x] - 1.0, theta, x), FLOOR / classes
    space[THETA] = theta
    space[GUESSED] = guessed
    here, elsewhere = max(theta + guessed, floor), max(guessed, floor)
    rows = SAID + classes + x * classes
    totals = SAID + classes + classes * classes
    for k in range(classes):
        belief = state.belief[i, BELIEF + k]
        q = worker[rows + k] - belief + strength * (here if k == x else elsewhere)
        space[LIKELY + k] = max(q / (worker[totals + k] - belief + strength), LEAST)
    if state.worker_link[j, COPIES] == 0:
        return 1.0
    share = vote_share(state, i, j)
    for k in range(classes):
        space[LIKELY + k] **= share
    return share


@inlined
def reweigh(state: State, i: int) -> None:
    """Recompute the score of task i: its prior, and all its labels by their workers' counts."""
    look(state)
    odds = state.by_class[ODDS]
    classes, row = len(odds), state.task[i, PRIOR]
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    for k in range(classes):
        score[k] = 0.0
        odds[k] = state.by_class[PI, k] if row == NONE else state.priors[row, k]
    at, votes = 0, 0.0
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            j, x = state.chunk[chunk, WHO + place], state.answer[chunk, ANSWER + place]
            votes += weigh(state, i, j, x, at)
            for k in range(classes):
                odds[k] *= state.space[at, LIKELY + k]
            at += 1
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
        if left <= 0 or left % MULTIPLIED < CHUNK:
            for k in range(classes):
                score[k] += log(odds[k])
                odds[k] = 1.0
    state.belief[i, VOTES] = votes
    state.whole[WEIGHED] += at
