"""Posteriors, an output: the probability of each task's classes, and the labels counted in it."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from orjson import dumps, loads

from sbic.classes import Classes
from sbic.engine.compiled import kernel
from sbic.engine.labels import Floats, Ints
from sbic.foreign import shown
from sbic.wire.bad import (
    BadRecord,
    Reason,
    parser,
    read_field,
    read_id,
    read_number,
    read_shallow,
)
from sbic.wire.columns import Bytes
from sbic.wire.rendering import Probabilities, Rendering, rendering_of, texts_of

TASKS = "tasks"  # key of the tasks topic in `sources`

CloseReason = Literal["confident", "labels", "budget", "request", "exhausted", "escalated"]
CLOSE_REASONS: tuple[CloseReason, ...] = (
    "confident",
    "labels",
    "budget",
    "request",
    "exhausted",
    "escalated",
)


class Posterior(NamedTuple):
    """The posterior of one task, as far as sbic itself reads it; the record has further fields.

    `beliefs` are probabilities, and `prediction` the number of a class, or None while none is
    predicted. `sources` maps a partition of the labels topic to the offset of the last label
    counted from it, and `"tasks"` to the offset of the last record applied from the tasks topic.
    `updated_at` is the timestamp of the newest of all these records, in milliseconds.

    A closed task has a `reason`. A gold one has `evidence`: what would be believed without gold.
    Under settled `effective_votes` is how many independent votes the labels are worth, given how
    often workers err together. `log_odds` are those of 1, where the classes are -1 and 1.
    """

    task: str
    beliefs: Probabilities
    prediction: int | None
    labels: int
    sources: dict[str, int]
    updated_at: int = 0
    reason: CloseReason | None = None
    evidence: Probabilities | None = None
    effective_votes: float = 0.0
    log_odds: float | None = None

    @property
    def doubt(self) -> float:
        """How probable it is that the prediction is wrong."""
        return doubt_of(self.beliefs)


def doubt_of(shares: Probabilities) -> float:
    """How probable it is that the most probable class is wrong.

    >>> doubt_of([1.0, 1e-30]), doubt_of([0.5, 0.25, 0.25])
    (1e-30, 0.5)
    """
    return min(shares) if len(shares) == 2 else 1 - max(shares)


PosteriorParser = Callable[[bytes | None], Posterior]


def posterior_parser(classes: Classes) -> PosteriorParser:
    """Return a parser for the posteriors of a project with these classes.

    >>> parse = posterior_parser(Classes.parse("-1,1"))
    >>> parse(b'{"task": "t1", "log_odds": -2.5, "probability": 0.08, "prediction": -1, '
    ...     b'"labels": 1, "status": "open", "sources": {"3": 42}, "updated_at": 0}')[:3]
    ('t1', [0.92, 0.08], 0)
    """
    rendering = rendering_of(classes)

    @parser
    def parse(value: bytes | None) -> Posterior:
        record = read_shallow(value)
        task = read_id(record, "task")
        labels = read_number(record, "labels", int)
        if not 0 <= labels <= MOST_LABELS:
            raise BadRecord(Reason.BAD_FIELD, "'labels' must be a number of labels")
        updated_at = read_number(record, "updated_at", int)
        if updated_at >= LATEST:
            raise BadRecord(Reason.BAD_FIELD, "'updated_at' must be a time in milliseconds")
        sources = read_field(record, "sources")
        if type(sources) is not dict or not set(map(type, sources.values())) <= OFFSETS:
            raise BadRecord(Reason.BAD_FIELD, "'sources' must be an object of offsets")
        shares, prediction, log_odds = rendering.read_belief(record)
        is_open = read_field(record, "status") == "open"
        found = Posterior(task, shares, prediction, labels, sources, updated_at, log_odds=log_odds)
        if is_open and len(record) == USUAL_FIELDS:
            return found
        return _read_more(found, record, rendering)

    return parse


def _read_more(found: Posterior, record: dict[str, Any], rendering: Rendering) -> Posterior:
    """Check the optional fields, and add those that are read."""
    for name, is_good in OPTIONAL.items():
        if name in record and not is_good(record[name]):
            raise _bad(record, name)
    evidence = None
    if "evidence" in record or "gold" in record:
        evidence = rendering.read_evidence(read_field(record, "evidence"))
        if evidence is None:
            raise _bad(record, "evidence")
    if "prior" in record and not all(rendering.read_shares(record["prior"]) or [0.0]):
        raise _bad(record, "prior")
    if "gold" in record and found.prediction is None:
        raise BadRecord(Reason.BAD_FIELD, "the prediction of gold must be one of the classes")
    return found._replace(
        reason=None if record["status"] == "open" else record.get("reason", "request"),
        evidence=evidence if "gold" in record else None,
        effective_votes=record.get("effective_votes", 0.0),
    )


def _bad(record: dict[str, Any], name: str) -> BadRecord:
    return BadRecord(Reason.BAD_FIELD, f"'{name}' cannot be {shown(record[name])}")


USUAL_FIELDS = 8  # a task, three of its belief, and labels, status, sources and updated_at
MOST_LABELS = 1 << 53  # exact in every JSON parser
LATEST = 1 << 62  # limit of times
OFFSETS = {int}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "status": lambda value: value in ("open", "closed"),
    "reason": lambda value: value in CLOSE_REASONS,
    "gold": lambda value: value is True,
    "reopened": lambda value: value is True,
    "effective_votes": lambda value: type(value) is float and value >= 0,
}


def on_one_line(value: bytes) -> bytes:
    """Return a record's value in JSON, which others may have written on several lines.

    >>> on_one_line(b'{"task":\\n"t1"}')
    b'{"task":"t1"}'
    """
    return dumps(loads(value)) if b"\n" in value or b"\r" in value else value


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
    """Return the value of each task's record.

    >>> from sbic.classes import SIGNS
    >>> numbers = [np.array([[0.4, 0.6]]), np.array([[0.0, 0.5]]), np.array([2]), np.array([7])]
    >>> sources = np.array([[0, 43]]), np.array([-1])
    >>> more = [None], np.array([False]), np.array([-1]), [None]
    >>> encode_posteriors(SIGNS, PosteriorColumns(["t1"], *numbers, *sources, *more))[0][:50]
    b'{"task":"t1","log_odds":0.5,"probability":0.6,"pre'
    """
    rendering = rendering_of(classes)
    beliefs = rendering.beliefs(columns.beliefs, columns.evidence, columns.labels, columns.golds)
    heads = [
        b'{"task":%b,%b' % (dumps(task), belief)
        for task, belief in zip(columns.tasks, beliefs, strict=True)
    ]
    if columns.effective_votes is not None:
        votes = texts_of(columns.effective_votes.round(3))
        heads = [b'%b,"effective_votes":%b' % both for both in zip(heads, votes, strict=True)]
    records = list(
        map(
            bytes.__add__,
            heads,
            tails(columns.labels, columns.updated_at, columns.sources, columns.described),
        )
    )
    for row in _unusual(columns):
        records[row] = _with_more(rendering, columns, row, heads[row])
    return records


def _unusual(columns: PosteriorColumns) -> list[int]:
    """Return the rows of tasks with optional fields."""
    is_unusual = columns.reopened | (columns.golds >= 0)
    is_unusual |= np.array([reason is not None for reason in columns.reasons], np.bool_)
    is_unusual |= np.array([prior is not None for prior in columns.priors], np.bool_)
    found: list[int] = np.flatnonzero(is_unusual).tolist()
    return found


def _with_more(rendering: Rendering, columns: PosteriorColumns, row: int, head: bytes) -> bytes:
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
        more["evidence"] = rendering.evidence(columns.evidence[row])
    prior = columns.priors[row]
    if prior is not None:
        more["prior"] = rendering.shares(prior)
    if columns.reopened[row]:
        more["reopened"] = True
    return b"%b,%b" % (head, dumps(more)[1:])


def _sources(columns: PosteriorColumns, row: int) -> dict[str, int]:
    """Return the offset of the last label counted from each labels partition that has any."""
    offsets = enumerate(columns.sources[row].tolist())
    sources = {str(partition): offset - 1 for partition, offset in offsets if offset}
    if columns.described[row] >= 0:
        sources[TASKS] = int(columns.described[row])
    return sources


# The second half of the posteriors of open tasks, written as JSON by compiled code.
#
# Most posteriors have the same fields there, and formatting them in Python would take longer than
# computing them.


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
    """Return the part of each record after the belief.

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
