"""The labels: stored by task in chunks, and linked by worker.

All labels of a task are read whenever it gets another one, so they are stored side by side, in
order. A worker's labels form a doubly linked list, so that the cost of adding or removing one does
not depend on their number.
"""

from sbic.engine.compiled import inlined, kernel
from sbic.engine.labels import Ints
from sbic.engine.state import (
    ABOUT,
    ANSWER,
    CHANGED,
    CHUNK,
    CHUNKS_USED,
    FIRST,
    FREE_CHUNK,
    IS_HERE,
    LABELS,
    LABELS_HERE,
    LAST,
    MOST_LABELS,
    NEWER,
    NEWEST,
    NEXT,
    NONE,
    OLDER,
    PAIR_LABEL,
    TASK,
    WALK,
    WEIGHT,
    WHO,
    Ints32,
    State,
)


@inlined
def following(state: State, label: int) -> int:
    """Return the position after this one among the labels of a task, occupied or not."""
    label += 1
    if label & (CHUNK - 1):
        return label
    return CHUNK * int(state.chunk[(label - 1) // CHUNK, NEXT])


@inlined
def worker_of(state: State, label: int) -> int:
    """Return the worker who gave a label."""
    return int(state.chunk[label // CHUNK, WHO + label % CHUNK])


@inlined
def answer_of(state: State, label: int) -> int:
    """Return the class that a label names."""
    return int(state.answer[label // CHUNK, ANSWER + label % CHUNK])


@inlined
def task_of(state: State, label: int) -> int:
    """Return the task of a label."""
    return int(state.chunk[label // CHUNK, TASK])


@kernel
def find(state: State, i: int, j: int) -> int:
    """Return the label of worker j on task i, or NONE."""
    chunk, left = state.task[i, FIRST], state.task[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            if state.chunk[chunk, WHO + place] == j:
                return int(CHUNK * chunk + place)
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    return NONE


@kernel
def has_label(chunks: Ints32, tasks: Ints32, i: int, j: int) -> bool:
    """Whether worker j has a label on task i; two arrays make it a quick call from Python."""
    chunk, left = tasks[i, FIRST], tasks[i, LABELS]
    while left > 0:
        for place in range(min(left, CHUNK)):
            if chunks[chunk, WHO + place] == j:
                return True
        left -= CHUNK
        chunk = chunks[chunk, NEXT]
    return False


@kernel
def first_without(chunks: Ints32, tasks: Ints32, j: int, among: Ints, start: int) -> int:
    """Get the index of the first of some tasks, from `start` on, that has no label of worker j."""
    for place in range(start, len(among)):
        if not has_label(chunks, tasks, among[place], j):
            return place
    return len(among)


@kernel
def last_label(state: State, i: int) -> int:
    """Return the newest label of task i, which must have one."""
    return int(CHUNK * state.task[i, LAST] + (state.task[i, LABELS] - 1) % CHUNK)


@kernel
def list_labels(state: State, tasks: Ints, workers: Ints, answers: Ints) -> None:
    """Write workers and answers of the labels of these tasks, task by task, each in order."""
    at = 0
    for i in tasks:
        chunk, left = state.task[i, FIRST], state.task[i, LABELS]
        while left > 0:
            for place in range(min(left, CHUNK)):
                workers[at] = state.chunk[chunk, WHO + place]
                answers[at] = state.answer[chunk, ANSWER + place]
                at += 1
            left -= CHUNK
            chunk = state.chunk[chunk, NEXT]


@kernel
def append(state: State, i: int, j: int, x: int) -> int:
    """Append a label to its task, and return its position."""
    labels = state.task[i, LABELS]
    place = labels % CHUNK
    if place == 0:
        _append_chunk(state, i)
    chunk = state.task[i, LAST]
    label = CHUNK * chunk + place
    state.task[i, LABELS] = labels + 1
    state.whole[MOST_LABELS] = max(state.whole[MOST_LABELS], labels + 1)
    state.whole[LABELS_HERE] += state.task[i, IS_HERE]
    state.whole[CHANGED] += state.task[i, IS_HERE]
    state.chunk[chunk, WHO + place] = j
    state.answer[chunk, ANSWER + place] = x
    if len(state.told):
        state.told[label, ABOUT] = state.told[label, WEIGHT] = 0.0
    if len(state.share):
        state.share[label] = 0.0
    older = state.worker_link[j, NEWEST]
    state.label[label, NEWER] = NONE
    state.label[label, OLDER] = older
    if older != NONE:
        state.label[older, NEWER] = label
    state.worker_link[j, NEWEST] = label
    return int(label)


@kernel
def remove(state: State, i: int, label: int) -> None:
    """Remove a label of task i; the labels after it move up, which keeps their order."""
    _unlink(state, label)
    labels = state.task[i, LABELS] - 1
    last = last_label(state, i)
    while label != last:
        source = following(state, label)
        _move(state, source, label)
        label = source
    state.task[i, LABELS] = labels
    state.whole[LABELS_HERE] -= state.task[i, IS_HERE]
    state.whole[CHANGED] += state.task[i, IS_HERE]
    if labels % CHUNK == 0:
        _remove_chunk(state, i)


@kernel
def _append_chunk(state: State, i: int) -> None:
    chunk = state.whole[FREE_CHUNK]
    if chunk != NONE:
        state.whole[FREE_CHUNK] = state.chunk[chunk, NEXT]
    else:
        chunk = state.whole[CHUNKS_USED]
        state.whole[CHUNKS_USED] = chunk + 1
    state.chunk[chunk, NEXT] = NONE
    state.chunk[chunk, TASK] = i
    last = state.task[i, LAST]
    if last == NONE:
        state.task[i, FIRST] = chunk
    else:
        state.chunk[last, NEXT] = chunk
    state.task[i, LAST] = chunk


@kernel
def _remove_chunk(state: State, i: int) -> None:
    """Free the last chunk of a task, which is empty now."""
    last = state.task[i, LAST]
    before = NONE
    chunk = state.task[i, FIRST]
    while chunk != last:
        before = chunk
        chunk = state.chunk[chunk, NEXT]
    if before == NONE:
        state.task[i, FIRST] = NONE
    else:
        state.chunk[before, NEXT] = NONE
    state.task[i, LAST] = before
    state.chunk[last, NEXT] = state.whole[FREE_CHUNK]
    state.whole[FREE_CHUNK] = last


@kernel
def _unlink(state: State, label: int) -> None:
    newer, older = state.label[label, NEWER], state.label[label, OLDER]
    if newer == NONE:
        state.worker_link[worker_of(state, label), NEWEST] = older
    else:
        state.label[newer, OLDER] = older
    if older != NONE:
        state.label[older, NEWER] = newer
    if state.whole[WALK] == label:
        state.whole[WALK] = older
    if state.whole[PAIR_LABEL] == label:
        state.whole[PAIR_LABEL] = older


@kernel
def _move(state: State, source: int, target: int) -> None:
    j = worker_of(state, source)
    state.chunk[target // CHUNK, WHO + target % CHUNK] = j
    state.answer[target // CHUNK, ANSWER + target % CHUNK] = answer_of(state, source)
    if len(state.vote):
        state.vote[target] = state.vote[source]
    if len(state.told):
        state.told[target, ABOUT] = state.told[source, ABOUT]
        state.told[target, WEIGHT] = state.told[source, WEIGHT]
    if len(state.share):
        state.share[target] = state.share[source]
    newer, older = state.label[source, NEWER], state.label[source, OLDER]
    state.label[target, NEWER] = newer
    state.label[target, OLDER] = older
    if newer == NONE:
        state.worker_link[j, NEWEST] = target
    else:
        state.label[newer, OLDER] = target
    if older != NONE:
        state.label[older, NEWER] = target
    if state.whole[WALK] == source:
        state.whole[WALK] = target
    if state.whole[PAIR_LABEL] == source:
        state.whole[PAIR_LABEL] = target
