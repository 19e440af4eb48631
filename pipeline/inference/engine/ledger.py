"""Who said what of which task: labels lie in chunks of their task, and are linked by worker.

A task's labels are read with every label that it gets, so they lie side by side, in their order. A
worker's are linked in both directions, so that one is added or removed at a cost that does not
depend on how many there are.
"""

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.state import (
    ANSWER,
    CHUNK,
    CHUNKS_USED,
    FIRST,
    FREE_CHUNK,
    IS_HERE,
    LABELS,
    LABELS_HERE,
    LAST,
    NEWER,
    NEWEST,
    NEXT,
    NONE,
    OLDER,
    TASK,
    WALK,
    WHO,
    Ints32,
    State,
)
from pipeline.inference.labels import Ints


@kernel
def following(state: State, label: int) -> int:
    """The place after this one among the labels of a task, whether there is a label or not."""
    label += 1
    if label & (CHUNK - 1):
        return label
    return CHUNK * int(state.chunk[(label - 1) // CHUNK, NEXT])


@kernel
def who_said(state: State, label: int) -> int:
    """The worker whose label it is."""
    return int(state.chunk[label // CHUNK, WHO + label % CHUNK])


@kernel
def what_was_said(state: State, label: int) -> int:
    """The class."""
    return int(state.answer[label // CHUNK, ANSWER + label % CHUNK])


@kernel
def task_of(state: State, label: int) -> int:
    """The task that it is a label of."""
    return int(state.chunk[label // CHUNK, TASK])


@kernel
def find(state: State, i: int, j: int) -> int:
    """The label of worker j on task i, or NONE."""
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
    """Whether worker j has a label on task i; with two arrays it is a quick call from Python."""
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
    """The place of the first of some tasks, from `start` on, that worker j has no label on."""
    for place in range(start, len(among)):
        if not has_label(chunks, tasks, among[place], j):
            return place
    return len(among)


@kernel
def last_label(state: State, i: int) -> int:
    """The newest label of task i, which has one."""
    return int(CHUNK * state.task[i, LAST] + (state.task[i, LABELS] - 1) % CHUNK)


@kernel
def list_labels(state: State, tasks: Ints, workers: Ints, answers: Ints) -> None:
    """Write who said what of these tasks, one after the other, each task's labels in order."""
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
    """Add a label after the others of its task, and return it."""
    labels = state.task[i, LABELS]
    place = labels % CHUNK
    if place == 0:
        _append_chunk(state, i)
    chunk = state.task[i, LAST]
    label = CHUNK * chunk + place
    state.task[i, LABELS] = labels + 1
    state.whole[LABELS_HERE] += state.task[i, IS_HERE]
    state.chunk[chunk, WHO + place] = j
    state.answer[chunk, ANSWER + place] = x
    older = state.worker_link[j, NEWEST]
    state.label[label, NEWER] = NONE
    state.label[label, OLDER] = older
    if older != NONE:
        state.label[older, NEWER] = label
    state.worker_link[j, NEWEST] = label
    return int(label)


@kernel
def remove(state: State, i: int, label: int) -> None:
    """Remove a label of task i; those after it move up, so that their order stays."""
    _unlink(state, label)
    labels = state.task[i, LABELS] - 1
    last = last_label(state, i)
    while label != last:
        source = following(state, label)
        _move(state, source, label)
        label = source
    state.task[i, LABELS] = labels
    state.whole[LABELS_HERE] -= state.task[i, IS_HERE]
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
    """Free the last chunk of a task, which has become empty."""
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
        state.worker_link[who_said(state, label), NEWEST] = older
    else:
        state.label[newer, OLDER] = older
    if older != NONE:
        state.label[older, NEWER] = newer
    if state.whole[WALK] == label:
        state.whole[WALK] = older


@kernel
def _move(state: State, source: int, target: int) -> None:
    j = who_said(state, source)
    state.chunk[target // CHUNK, WHO + target % CHUNK] = j
    state.answer[target // CHUNK, ANSWER + target % CHUNK] = what_was_said(state, source)
    if len(state.vote):
        state.vote[target] = state.vote[source]
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
