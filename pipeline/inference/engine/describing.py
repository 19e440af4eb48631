"""What is set for a task apart from its labels: where it begins, gold, and its own prior."""

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.beliefs import (
    add_to_prior,
    begin,
    count_on_gold,
    informs_prior,
    move,
    refresh,
)
from pipeline.inference.engine.due import has_moved, worker_has_moved
from pipeline.inference.engine.ledger import answer_of, following, worker_of
from pipeline.inference.engine.state import (
    BELIEF,
    CHANGE,
    CHUNK,
    FIRST,
    GOLD,
    IS_HERE,
    LABELS,
    NONE,
    PRIOR,
    WORKER_IS_HERE,
    State,
)


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
