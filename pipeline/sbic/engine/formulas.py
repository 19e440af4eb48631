"""The formulas of both algorithms: how much a label weighs."""

from math import log

from sbic.engine.compiled import kernel
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
    FIRST,
    FIXED,
    GIVEN,
    GIVEN_ELSEWHERE,
    IS_LEARNED,
    LABELS,
    NEXT,
    NONE,
    ODDS,
    PI,
    PRIOR,
    RHO,
    RHO_ELSEWHERE,
    RIGHT,
    RIGHT_ELSEWHERE,
    SAID,
    TASKS_ELSEWHERE,
    WHO,
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
    """The vote of an answer of worker j: what it adds to its task's log-odds (line 6)."""
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
# A worker knows the answer with probability θ, and otherwise follows a habit f, the frequency of
# each class among their answers. This is MACE (Hovy et al., NAACL 2013) under collapsed variational
# inference of order zero (CVB0; Asuncion et al., UAI 2009). Worker j has n labels, of which a are
# expected to be right and F_k are of class k. The crowd has N labels, of which A are expected to be
# right, on T tasks, whose beliefs sum to ρ:
#
#     π_k = (ρ_k + c/K) / (T + c)                   the classes are not equally frequent
#     g   = (A + α) / (N + α + β)                   the average accuracy of the crowd
#     for each label (j, x) of task i, with n' = n - 1:
#         p   = (a - P_i[x] + m g) / (n' + m)
#         f_k = (F_k - [k = x] + s/K) / (n' + s)
#         h   = Σ π_k f_k                           right by habit alone
#         θ   = max((p - h) / (1 - h), -1)
#         q(x|x) = θ + (1 - θ) f_x,  q(x|k) = (1 - θ) f_x
#     P_i = softmax(log π_k + Σ log q(x|k))
#
# All classes but x have the same q, so a label adds log(q(x|x) / q(x|k)) to its own class.


M = 8.0  # weight of the crowd's accuracy in p, in labels
S = 16.0  # weight of equal frequencies in f, in labels
C = 100.0  # weight of equal frequencies in π, in tasks
FLOOR = 0.02  # lower limit of q, summed over the classes
MULTIPLIED = 32  # odds multiplied at most before taking the logarithm: so few cannot overflow
SURE = 1e-6  # distance that p keeps from 0 and 1


@kernel
def class_prior(state: State) -> None:
    """Write π, the prior of tasks without their own, to PI."""
    pi = state.by_class[PI]
    classes = len(pi)
    if not state.whole[IS_LEARNED]:
        for k in range(classes):
            pi[k] = state.by_class[FIXED, k]
        return
    tasks = state.crowd[ALL_TASKS] + state.crowd[TASKS_ELSEWHERE] + C
    for k in range(classes):
        rho = state.by_class[RHO, k] + state.by_class[RHO_ELSEWHERE, k]
        pi[k] = (rho + C / classes) / tasks


@kernel
def crowd_accuracy(state: State) -> float:
    """g: the expected share of right labels in the crowd, which is the estimate of a new worker."""
    crowd = state.crowd
    right = crowd[ALL_RIGHT] + crowd[RIGHT_ELSEWHERE] + crowd[ALPHA]
    given = crowd[ALL_GIVEN] + crowd[GIVEN_ELSEWHERE] + crowd[ALPHA] + crowd[BETA]
    return float(right / given)


@kernel
def reweigh(state: State, i: int) -> None:
    """Recompute the score of task i: its prior, and all its labels by their workers' counts."""
    pi, odds = state.by_class[PI], state.by_class[ODDS]
    classes = len(pi)
    row = state.task[i, PRIOR]
    if row == NONE:
        class_prior(state)
    else:
        for k in range(classes):
            pi[k] = state.priors[row, k]
    belief = state.belief[i, BELIEF : BELIEF + classes]
    score = state.belief[i, BELIEF + classes : BELIEF + 2 * classes]
    worker = state.worker
    for k in range(classes):
        score[k] = 0.0
        odds[k] = pi[k]
    average = M * crowd_accuracy(state)
    evenly = S / classes
    floor = FLOOR / classes
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            j, x = state.chunk[chunk, WHO + place], state.answer[chunk, ANSWER + place]
            others = worker[j, GIVEN] - 1.0
            p = (worker[j, RIGHT] - belief[x] + average) / (others + M)
            p = min(max(p, SURE), 1.0 - SURE)
            said = evenly - pi[x]
            for k in range(classes):
                said += pi[k] * worker[j, SAID + k]
            share = 1.0 / (others + S)
            by_habit = said * share
            theta = max((p - by_habit) / (1.0 - by_habit), -1.0)
            guessed = (1.0 - theta) * (worker[j, SAID + x] - 1.0 + evenly) * share
            odds[x] *= max(theta + guessed, floor) / max(guessed, floor)
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
        if left <= 0 or left % MULTIPLIED < CHUNK:
            for k in range(classes):
                score[k] += log(odds[k])
                odds[k] = 1.0
