"""The state of the compiled loops: one tuple of arrays, names for the columns; the results.

It has few arrays with several columns each, because every call unpacks every array of the tuple,
and because values that are used together then share a line of the processor's cache.
"""

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sbic.engine.labels import Floats, Ints

Ints32 = NDArray[np.int32]

LINE = 64  # bytes in a line of the processor's cache

# A chunk is one line: labels of one task, side by side. `answer` is the same memory as `chunk`,
# read as integers of half the size.
CHUNK = 8  # labels
NEXT = 0  # the next chunk of the same task
TASK = 1
WHO = 2  # to 9: the worker of each label
ANSWER = 20  # to 27: the class of each label

# Columns of `label`: the same worker's next newer and next older label.
NEWER, OLDER = range(2)

# Columns of `task`.
FIRST = 0  # chunk
LAST = 1  # chunk
LABELS = 2  # how many
GOLD = 3  # the known true class, or NONE
PRIOR = 4  # row of `priors`, or NONE
IS_HERE = 5  # 1 if its belief is computed here, 0 if another engine sends it
DUE = 6  # the next task in the queue of due tasks
MOVED = 7  # the next task in the list of those that moved
TASK_COLUMNS = 8

# Columns of `belief`: how far it has moved since `due.tell`; the votes of its labels, less what
# copies share; from BELIEF on the probability of each class, followed by the score of each class:
# its logarithm, up to a constant; under settled followed by what `due.tell` told of each class.
TASK_PATH, VOTES, BELIEF = range(3)

# Columns of `worker_link`.
NEWEST = 0  # label
WORKER_DUE = 1  # the next worker in the queue of those whose tasks become due
WORKER_MOVED = 2  # the next worker in the list of those whose counts moved
ON_GOLD = 3  # labels on gold tasks
RIGHT_ON_GOLD = 4
FIRST_COPY = 5  # row of `copy`
COPIES = 6  # how many rows of `copy`
LINK_COLUMNS = 7

# Columns of `worker`.
GIVEN = 0  # n
RIGHT = 1  # a
PATH = 2  # how far a has moved since the worker's tasks last became due
WORKER_IS_HERE = 3  # 1 if the counts are kept here, 0 if another engine sends them
SAID = 4  # and following: F, the number of labels of each class
# Under settled there follow, for K classes: C[k][x], the sum of the beliefs in k over the labels x,
# for each x and in it for each k; R, its sum over x; Q, the sum of the squared beliefs in each k;
# and two numbers, counted from the first of them:
Y, V = 0, 1  # what tasks tell of θ, and with which weight
TOLD_NUMBERS = 2  # in all two lines of the cache for two classes: most of the time goes into them

# Columns of `apart`: how far C is from θ and f, and out of how much.
D, E = range(2)

# Columns of `told`: what a label tells of its worker's θ, and with which weight.
ABOUT, WEIGHT = range(2)

# Columns of `space`, the work space with a row for each label of a task: θ and f of its worker
# without it; from LIKELY on, how likely the label is in each class.
THETA, GUESSED, LIKELY = range(3)

DRIFT_COLUMNS = 9

# Columns of `copy`: a worker whose answers are nearly the same; `copied` has the vote they share.

# Rows of `by_class`.
RHO = 0  # the sum of the beliefs from which the class prior is learned
RHO_ELSEWHERE = 1
FIXED = 2  # the given class prior, if it is not learned
PI_DUE = 3  # the class prior when all tasks last became due
PI = 4  # work space: the prior of the current task
ODDS = 5  # work space: the odds from some of its labels
CHANGE = 6  # work space: the change of its belief
SQUARES = 7  # work space: the change of its squared belief
BIAS = 8  # b of the calibration in force
CLASS_ROWS = 9

# Indices of `crowd`: floating-point numbers.
ALPHA = 0
BETA = 1
TOLERANCE = 2
G = 3  # g, m and S of now
M = 4
S = 5
G_DUE = 6  # g, m and S when all tasks last became due
M_DUE = 7
S_DUE = 8
DEPENDENCE = 9  # ρ and a in force: what is published depends on them
SCALE = 10
# The sums over the crowd: this engine's part, followed by that of all others.
SUMS = 12
ALL_GIVEN = 12  # N
ALL_RIGHT = 13  # A
ALL_TASKS = 14  # T
SUM_Y = 15
SUM_V = 16
SUM_YY = 17
SUM_YV = 18
SUM_VV = 19
SUM_WW = 20
SUM_D = 21
SUM_E = 22
SUM_TOGETHER = 23  # how far errors go together, its possible size, and its squares
SUM_APART = 24
SUM_TOGETHER_2 = 25
ELSEWHERE = 14  # from a number to that of all other engines
SO_FAR = 40  # the last three sums of the pass over all tasks that is under way
DIVERSE = 43  # 1 - Σ π²
PULL = 44  # m (g - 1/K): what is believed of an unknown worker, as part of θ, ...
HOLD = 45  # m (1 - 1/K): ... and its weight
CROWD_NUMBERS = 46

# Indices of `whole`: integers.
IS_SETTLED = 0  # 1 for settled, 0 for Fast SBIC
IS_LEARNED = 1  # whether the class prior is learned
TASKS_KNOWN = 2
CHUNKS_USED = 3
FREE_CHUNK = 4
FIRST_DUE = 5
LAST_DUE = 6  # beside the first: see `due`
FIRST_WORKER_DUE = 7
LAST_WORKER_DUE = 8
WALK = 9  # the next label of the worker whose tasks are becoming due
SWEEP = 10  # the next task while all tasks are becoming due
FIRST_MOVED = 11
TASKS_DUE = 12  # how many
FIRST_WORKER_MOVED = 13
LABELS_HERE = 14  # how many, on tasks computed here
TASKS_MOVED = 15  # how many are in the list of those that moved
READ = 16  # written by `taking._look_ahead`, never used
IS_WALKING = 17  # 1 while tasks become due, 0 while due tasks are refreshed
WORKER_SWEEP = 18  # the next worker to compare before all tasks become due
MOST_LABELS = 19  # of any task
PASS = 20  # the next task of the pass that sums up the dependence
WEIGHED = 21  # labels weighed since that pass began
OUTSIDE = 22  # the next task to compare with what is published
PAIR_WORKER = 23  # the worker whose pairs are being counted: see `copies`
PAIR_LABEL = 24  # the next of the worker's labels
CHANGED = 25  # labels that came to own tasks, or went
WHOLE_NUMBERS = 26

NONE = -1
NOT_IN = -2  # in place of the next one: not in the queue or list


class State(NamedTuple):
    """All arrays. The number of a label is its chunk times CHUNK, plus its position there."""

    chunk: Ints32
    answer: NDArray[np.int16]
    label: Ints32
    vote: Floats  # of each label; Fast SBIC only
    told: Floats  # of each label; settled only
    share: Floats  # of each label's vote, as `copies.receive_shares` set it; empty before that
    space: Floats
    task: Ints32
    belief: Floats
    priors: Floats
    worker: Floats
    apart: Floats  # of each worker; settled only
    worker_link: Ints32
    copy: Ints32
    copied: Floats
    drift: Floats  # of each worker; settled only: see `drift`
    work: Floats
    by_class: Floats
    crowd: Floats
    whole: Ints


def empty_state(classes: int, *, is_settled: bool) -> State:
    """Return a state without labels, and without memory for any: see `with_room`."""
    whole = np.full(WHOLE_NUMBERS, NONE, np.int64)
    whole[IS_SETTLED] = is_settled
    zeros = IS_LEARNED, TASKS_KNOWN, CHUNKS_USED, TASKS_DUE, LABELS_HERE, TASKS_MOVED, IS_WALKING
    whole[[*zeros, MOST_LABELS, WEIGHED, CHANGED]] = 0
    crowd = _zeros((CROWD_NUMBERS,), np.float64)
    crowd[SCALE] = 1.0
    rows = classes * (classes + 2) + TOLD_NUMBERS if is_settled else 0
    chunk = _zeros((0, LINE // 4), np.int32)
    return State(
        chunk=chunk,
        answer=chunk.view(np.int16),
        label=_zeros((0, 2), np.int32),
        vote=_zeros((0,), np.float64),
        told=_zeros((0, 2), np.float64),
        share=_zeros((0,), np.float64),
        space=_zeros((0, LIKELY + classes), np.float64),
        task=_zeros((0, TASK_COLUMNS), np.int32),
        belief=_zeros((0, _whole_lines(BELIEF + (2 + is_settled) * classes)), np.float64),
        priors=_zeros((0, classes), np.float64),
        worker=_zeros((0, _whole_lines(SAID + classes + rows)), np.float64),
        apart=_zeros((0, 2), np.float64),
        worker_link=_zeros((0, LINK_COLUMNS), np.int32),
        copy=_zeros((0,), np.int32),
        copied=_zeros((0,), np.float64),
        drift=_zeros((0, DRIFT_COLUMNS), np.float64),
        work=_zeros((2 + classes, classes), np.float64),
        by_class=_zeros((CLASS_ROWS, classes), np.float64),
        crowd=crowd,
        whole=whole,
    )


def with_room(state: State, *, tasks: int, workers: int, labels: int) -> State:
    """Reserve memory for this many tasks and workers in all, and for further labels.

    The operating system allocates the pages of a large array only when they are first written.
    """
    known_tasks, known_workers = int(state.whole[TASKS_KNOWN]), len(state.worker)
    if tasks > len(state.task):
        room = max(tasks, 2 * len(state.task))
        state = state._replace(
            task=_longer(state.task, room, known_tasks),
            belief=_longer(state.belief, room, known_tasks),
        )
    if tasks > known_tasks:
        new = state.task[known_tasks:tasks]
        new[:] = NONE
        new[:, LABELS] = 0
        new[:, IS_HERE] = 1
        new[:, DUE] = new[:, MOVED] = NOT_IN
        state.whole[TASKS_KNOWN] = tasks
    if workers > known_workers:
        room = max(workers, 2 * known_workers)
        state = state._replace(
            worker=_longer(state.worker, room, known_workers),
            worker_link=_longer(state.worker_link, room, known_workers),
        )
        if state.whole[IS_SETTLED]:
            state = state._replace(
                apart=_longer(state.apart, room, known_workers),
                drift=_longer(state.drift, room, known_workers),
            )
        state.worker[known_workers:, WORKER_IS_HERE] = 1
        state.worker_link[known_workers:] = NONE, NOT_IN, NOT_IN, 0, 0, 0, 0
    used = int(state.whole[CHUNKS_USED])
    if used + labels > len(state.chunk):  # every label may need its own chunk
        chunks = max(used + labels, 2 * len(state.chunk))
        chunk = _longer(state.chunk, chunks, used)
        room, used_labels = CHUNK * chunks, CHUNK * used
        is_settled = state.whole[IS_SETTLED]
        state = state._replace(
            chunk=chunk,
            answer=chunk.view(np.int16),
            label=_longer(state.label, room, used_labels),
            vote=state.vote if is_settled else _longer(state.vote, room, used_labels),
            told=_longer(state.told, room, used_labels) if is_settled else state.told,
            share=_longer(state.share, room, used_labels) if len(state.share) else state.share,
        )
    most = int(state.whole[MOST_LABELS]) + labels
    if state.whole[IS_SETTLED] and most > len(state.space):
        state = state._replace(space=_longer(state.space, 2 * most, 0))
    return state


def with_shares(state: State) -> State:
    """Reserve memory for the shares of votes, 0 until one is set; most crowds have no copies."""
    if len(state.share):
        return state
    return state._replace(share=_zeros((len(state.told),), np.float64))


def _whole_lines(numbers: int) -> int:
    """Return the number of eight-byte values, rounded up to whole lines."""
    return -(-numbers * 8 // LINE) * LINE // 8


def _longer(array: NDArray[Any], rows: int, used: int) -> NDArray[Any]:
    """Return a copy of the used rows, followed by zeros."""
    longer = _zeros((rows, *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


def _zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Zeros aligned to the start of a line."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    skipped = -memory.ctypes.data % LINE
    return memory[skipped : skipped + size].view(dtype).reshape(shape)


# The results of the engine's methods: columns and numbers with names.


class Outcomes(NamedTuple):
    """The outcome of each label of a batch (`taking.ADDED`, ...), and its vote under Fast SBIC."""

    outcomes: NDArray[np.int8]
    votes: Floats


class Convergence(NamedTuple):
    """How many sweeps it took, and how far the last one moved any probability."""

    sweeps: int
    change: float


class Overview(NamedTuple):
    """For each task: its number of labels, its gold class or -1, and its lead.

    The lead of the most probable class over the second is in log-odds, from labels and prior,
    without gold.
    """

    labels: Ints
    golds: Ints
    leads: Floats


class Sums(NamedTuple):
    """One engine's part in the sums over the crowd: the numbers from SUMS on, and ρ."""

    numbers: Floats
    rho: Floats


class StandingLabels(NamedTuple):
    """Labels that stand: task, worker and class of each."""

    tasks: Ints
    workers: Ints
    answers: Ints


class WorkerCounts(NamedTuple):
    """The estimates of some workers, a row for each.

    A worker has `given` labels, of which `right` are expected to be right, and `said` of each
    class; `accuracy` also includes the prior. Under settled a worker knows the answer with
    probability `theta`, and otherwise answers each class with the frequency in `habits`; with more
    labels, as in `confusion`: the probability of each answer, for each true class.
    """

    given: Floats
    right: Floats
    said: Floats
    accuracy: Floats
    theta: Floats | None
    habits: Floats | None
    confusion: Floats | None
