"""Encoding the posteriors of many tasks at once, from columns to JSON.

Most of a label's time is spent here, so numbers are formatted a column at a time, and dictionaries
are made only for tasks that have optional fields.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from orjson import dumps

from pipeline.classes import Classes
from pipeline.inference.labels import Floats, Ints
from pipeline.records.posterior_tails import tails
from pipeline.records.posteriors import CERTAIN, TASKS, CloseReason


class PosteriorColumns(NamedTuple):
    """The posteriors of tasks, a row for each.

    `evidence`: the scores without gold.
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


def encode_posteriors(classes: Classes, columns: PosteriorColumns) -> list[bytes]:
    """The value of each task's record.

    >>> from pipeline.classes import SIGNS
    >>> numbers = [np.array([[0.4, 0.6]]), np.array([[0.0, 0.5]]), np.array([2]), np.array([7])]
    >>> sources = np.array([[0, 43]]), np.array([-1])
    >>> more = [None], np.array([False]), np.array([-1]), [None]
    >>> encode_posteriors(SIGNS, PosteriorColumns(["t1"], *numbers, *sources, *more))[0][:50]
    b'{"task":"t1","log_odds":0.5,"probability":0.6,"pre'
    """
    heads = _heads_of_signs(columns) if classes.is_signs else _heads_of_names(classes, columns)
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
