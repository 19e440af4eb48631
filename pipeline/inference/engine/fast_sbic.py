"""Fast SBIC (Algorithm 1): a label's vote is fixed on arrival, by its worker's earlier labels."""

from math import log

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.ledger import following
from pipeline.inference.engine.state import (
    ALPHA,
    BELIEF,
    BETA,
    CHUNK,
    FIRST,
    FIXED,
    GIVEN,
    LABELS,
    NONE,
    PRIOR,
    RIGHT,
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
