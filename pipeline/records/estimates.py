"""Estimates: what the owner of a partition tells the other instances of its tasks and workers.

Every instance follows them. They are told as they change, and all of them after every rebalance:
who begins to follow then knows everything.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.engine.engine import Sums
from pipeline.inference.labels import Floats
from pipeline.records.columns import NOT_OURS, Columns, are_counts, encode_columns


class Beliefs(NamedTuple):
    """Of tasks: their number of labels, gold class or -1, whether they are open, and scores."""

    tasks: list[str]
    labels: NDArray[np.int32]
    gold: NDArray[np.int16]
    is_open: NDArray[np.bool_]
    scores: Floats


class Counts(NamedTuple):
    """Of workers: n, a and F, a row for each."""

    workers: list[str]
    counts: Floats


class Whole(NamedTuple):
    """All tasks and workers of the partition have been told; it adds `sums` to the crowd's."""

    sums: Sums


Estimates = Beliefs | Counts | Sums | Whole


def encode_estimates(epoch: int, told: Estimates) -> bytes:
    """The value of a record; `epoch` is that of the owner.

    >>> value = encode_estimates(3, Counts(["w1"], np.array([[2.0, 1.5, 1.0, 1.0]])))
    >>> parse_estimates(value, classes=2)
    (3, Counts(workers=['w1'], counts=array([[2. , 1.5, 1. , 1. ]])))
    """
    fields: dict[str, object] = {"epoch": epoch}
    match told:
        case Beliefs():
            fields["task"] = told.tasks
            columns = (
                told.labels.astype("<i4"),
                told.gold.astype("<i2"),
                told.is_open.astype("?"),
                told.scores,
            )
            return encode_columns("beliefs", fields, columns)
        case Counts():
            fields["worker"] = told.workers
            return encode_columns("counts", fields, (told.counts,))
        case Whole():
            return encode_columns("whole", fields, (_as_column(told.sums),))
    return encode_columns("sums", fields, (_as_column(told),))


def parse_estimates(value: bytes | None, classes: int) -> tuple[int, Estimates]:
    """The epoch and the estimates in a record's value, or `BadRecord`."""
    record = Columns(value)
    epoch = record.number("epoch")
    told: Estimates
    if record.kind == "beliefs":
        tasks = record.names("task")
        rows = len(tasks)
        labels, gold = record.column("<i4", rows), record.column("<i2", rows)
        is_open, scores = record.column("?", rows), record.numbers(rows, classes)
        if rows and (labels.min() < 0 or gold.min() < -1 or gold.max() >= classes):
            raise NOT_OURS
        told = Beliefs(tasks, labels, gold, is_open, scores)
    elif record.kind == "counts":
        workers = record.names("worker")
        told = Counts(workers, record.numbers(len(workers), 2 + classes))
        if not are_counts(told.counts):
            raise NOT_OURS
    elif record.kind in ("sums", "whole"):
        sums = record.numbers(3 + classes)
        if not are_counts(sums):
            raise NOT_OURS
        given, right, tasks_, *rho = sums.tolist()
        told = Sums(given, right, tasks_, np.array(rho))
        if record.kind == "whole":
            told = Whole(told)
    else:
        raise NOT_OURS
    record.end()
    return epoch, told


def _as_column(sums: Sums) -> Floats:
    return np.array([sums.given, sums.right, sums.tasks, *sums.rho])
