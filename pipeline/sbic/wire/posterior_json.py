"""Encoding the posteriors of many tasks at once, from columns to JSON."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from orjson import dumps

from sbic.classes import Classes
from sbic.engine.compiled import kernel
from sbic.engine.labels import Floats, Ints
from sbic.wire.posteriors import CERTAIN, TASKS, CloseReason

# The second half of the posteriors of open tasks, written as JSON by compiled code.
#
# Most posteriors have the same fields there, and formatting them in Python would take longer than
# computing them.


Bytes = NDArray[np.uint8]
DIGITS = 20  # of a number at most
SOURCE_BYTES = 2 * DIGITS + 4
TAIL_BYTES = 3 * DIGITS + 100
TEXT_BYTES = 1 << 22


def _bytes(word: bytes) -> Bytes:
    return np.frombuffer(word, np.uint8)


LABELS = _bytes(b',"labels":')
SOURCES = _bytes(b',"status":"open","sources":{')
DESCRIBED = _bytes(b'"%b":' % TASKS.encode())
UPDATED = _bytes(b'},"updated_at":')


def tails(labels: Ints, updated_at: Ints, sources: Ints, described: Ints) -> list[bytes]:
    """The part of each record after the belief.

    >>> tails(np.array([2]), np.array([7]), np.array([[0, 43]]), np.array([5]))
    [b',"labels":2,"status":"open","sources":{"1":42,"tasks":5},"updated_at":7}']
    """
    found: list[bytes] = []
    row_bytes = sources.shape[1] * SOURCE_BYTES + TAIL_BYTES
    at_once = max(1, TEXT_BYTES // row_bytes)
    for first in range(0, len(labels), at_once):
        some = slice(first, first + at_once)
        rows = len(labels[some])
        text, ends = np.empty(rows * row_bytes, np.uint8), np.empty(rows, np.int64)
        columns = labels[some], updated_at[some], sources[some], described[some]
        write_tails(*columns, LABELS, SOURCES, DESCRIBED, UPDATED, text, ends)
        whole, start = text[: ends[-1]].tobytes(), 0
        for end in ends.tolist():
            found.append(whole[start:end])
            start = end
    return found


@kernel
def write_tails(
    labels: Ints,
    updated_at: Ints,
    sources: Ints,
    described: Ints,
    labels_word: Bytes,
    sources_word: Bytes,
    tasks_word: Bytes,
    updated_word: Bytes,
    text: Bytes,
    ends: Ints,
) -> None:
    """Write the tail of each row to `text`, and its end to `ends`."""
    at = 0
    for row in range(len(labels)):
        at = write_word(text, at, labels_word)
        at = write_number(text, at, labels[row])
        at = write_word(text, at, sources_word)
        is_first = True
        for partition in range(sources.shape[1]):
            if sources[row, partition] > 0:
                if not is_first:
                    text[at] = 44  # ,
                    at += 1
                is_first = False
                text[at] = 34  # "
                at = write_number(text, at + 1, partition)
                text[at] = 34
                text[at + 1] = 58  # :
                at = write_number(text, at + 2, sources[row, partition] - 1)
        if described[row] >= 0:
            if not is_first:
                text[at] = 44
                at += 1
            at = write_word(text, at, tasks_word)
            at = write_number(text, at, described[row])
        at = write_word(text, at, updated_word)
        at = write_number(text, at, updated_at[row])
        text[at] = 125  # }
        at += 1
        ends[row] = at


@kernel
def write_word(text: Bytes, at: int, word: Bytes) -> int:
    """Write a word at this position; return the position after it."""
    for k in range(len(word)):
        text[at + k] = word[k]
    return at + len(word)


@kernel
def write_number(text: Bytes, at: int, number: int) -> int:
    """Write a whole number, 0 or more, at this position; return the position after it."""
    digits = 1
    rest = number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for k in range(digits):
        text[at + digits - 1 - k] = 48 + number % 10
        number //= 10
    return at + digits


# Encoding the posteriors of many tasks at once, from columns to JSON.
#
# Most of a label's time is spent here, so numbers are formatted a column at a time, and
# dictionaries are made only for tasks that have optional fields.


class PosteriorColumns(NamedTuple):
    """The posteriors of tasks, a row for each.

    `evidence`: the scores without gold.
    `effective_votes`: how many independent votes the labels are worth, under settled.
    `sources`: for each labels partition, the offset after the last label counted.
    `described`: the offset of the last record of the tasks topic, or -1.
    `golds`: a class, or -1.
    `priors`: the task's own prior, if it has one.
    """

    tasks: list[str]
    beliefs: Floats
    evidence: Floats
    labels: Ints
    updated_at: Ints
    sources: Ints
    described: Ints
    reasons: list[CloseReason | None]
    reopened: NDArray[np.bool_]
    golds: Ints
    priors: list[list[float] | None]
    effective_votes: Floats | None = None


def encode_posteriors(classes: Classes, columns: PosteriorColumns) -> list[bytes]:
    """The value of each task's record.

    >>> from sbic.classes import SIGNS
    >>> numbers = [np.array([[0.4, 0.6]]), np.array([[0.0, 0.5]]), np.array([2]), np.array([7])]
    >>> sources = np.array([[0, 43]]), np.array([-1])
    >>> more = [None], np.array([False]), np.array([-1]), [None]
    >>> encode_posteriors(SIGNS, PosteriorColumns(["t1"], *numbers, *sources, *more))[0][:50]
    b'{"task":"t1","log_odds":0.5,"probability":0.6,"pre'
    """
    heads = _heads_of_signs(columns) if classes.is_signs else _heads_of_names(classes, columns)
    if columns.effective_votes is not None:
        votes = _texts(columns.effective_votes.round(3))
        heads = [b'%b,"effective_votes":%b' % both for both in zip(heads, votes, strict=True)]
    records = list(
        map(
            bytes.__add__,
            heads,
            tails(columns.labels, columns.updated_at, columns.sources, columns.described),
        )
    )
    for row in _unusual(columns):
        records[row] = _with_more(classes, columns, row, heads[row])
    return records


def _texts(column: NDArray[Any]) -> list[bytes]:
    """Each number as JSON."""
    return dumps(column.tolist())[1:-1].split(b",") if len(column) else []


def _heads_of_signs(columns: PosteriorColumns) -> list[bytes]:
    log_odds = columns.evidence[:, 1] - columns.evidence[:, 0]
    gold = columns.golds
    log_odds = np.where(gold >= 0, np.where(gold == 1, CERTAIN, -CERTAIN), log_odds)
    predictions = [b"-1", b"0", b"1"]
    return [
        b'{"task":%b,"log_odds":%b,"probability":%b,"prediction":%b'
        % (dumps(task), z, p, predictions[sign])
        for task, z, p, sign in zip(
            columns.tasks,
            _texts(log_odds),
            _texts(columns.beliefs[:, 1]),
            (np.sign(log_odds).astype(int) + 1).tolist(),
            strict=True,
        )
    ]


def _heads_of_names(classes: Classes, columns: PosteriorColumns) -> list[bytes]:
    names = [dumps(name) for name in classes.names]
    first = columns.beliefs.argmax(axis=1)
    confidence = columns.beliefs[np.arange(len(first)), first]
    is_tie = (columns.beliefs == confidence[:, None]).sum(axis=1) > 1
    is_known = ((columns.labels > 0) & ~is_tie) | (columns.golds >= 0)
    keys = [b"%b:" % name for name in names]
    texts = _texts(columns.beliefs.ravel())
    heads = []
    for row, (task, k, sure, known) in enumerate(
        zip(columns.tasks, first.tolist(), _texts(confidence), is_known.tolist(), strict=True)
    ):
        some = texts[row * len(names) : (row + 1) * len(names)]
        heads.append(
            b'{"task":%b,"prediction":%b,"confidence":%b,"probabilities":{%b}'
            % (
                dumps(task),
                names[k] if known else b"null",
                sure,
                b",".join(map(bytes.__add__, keys, some)),
            )
        )
    return heads


def _unusual(columns: PosteriorColumns) -> list[int]:
    """The rows of tasks with optional fields."""
    is_unusual = columns.reopened | (columns.golds >= 0)
    is_unusual |= np.array([reason is not None for reason in columns.reasons], np.bool_)
    is_unusual |= np.array([prior is not None for prior in columns.priors], np.bool_)
    found: list[int] = np.flatnonzero(is_unusual).tolist()
    return found


def _with_more(classes: Classes, columns: PosteriorColumns, row: int, head: bytes) -> bytes:
    reason = columns.reasons[row]
    more: dict[str, Any] = {
        "labels": int(columns.labels[row]),
        "status": "open" if reason is None else "closed",
        "sources": _sources(columns, row),
        "updated_at": int(columns.updated_at[row]),
    }
    if reason is not None:
        more["reason"] = reason
    if columns.golds[row] >= 0:
        more["gold"] = True
        more["evidence"] = _evidence(classes, columns.evidence[row])
    prior = columns.priors[row]
    if prior is not None:
        more["prior"] = prior[1] if classes.is_signs else _by_name(classes, prior)
    if columns.reopened[row]:
        more["reopened"] = True
    return b"%b,%b" % (head, dumps(more)[1:])


def _sources(columns: PosteriorColumns, row: int) -> dict[str, int]:
    """The offset of the last label counted from each labels partition that has any."""
    offsets = enumerate(columns.sources[row].tolist())
    sources = {str(partition): offset - 1 for partition, offset in offsets if offset}
    if columns.described[row] >= 0:
        sources[TASKS] = int(columns.described[row])
    return sources


def _evidence(classes: Classes, scores: Floats) -> float | dict[str, float]:
    if classes.is_signs:
        return float(scores[1] - scores[0])
    odds = np.exp(scores - scores.max())
    return _by_name(classes, (odds / odds.sum()).tolist())


def _by_name(classes: Classes, shares: list[float]) -> dict[str, float]:
    return dict(zip(classes.names, shares, strict=True))
