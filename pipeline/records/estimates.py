"""Estimates: what the owner of a partition tells the other instances of its tasks and workers.

Every instance follows them. They are told as they change, and all of them after every rebalance, or
when somebody asks: who begins to follow then knows everything.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.engine.results import Sums
from pipeline.inference.labels import Floats
from pipeline.records.bad import BadRecord
from pipeline.records.columns import NOT_OURS, Columns, are_counts, encode_columns


class Numbered(NamedTuple):
    """What rows are about: tasks, or workers, by the numbers that the teller has given them.

    `names` are those of the numbers from `first` on, which are told for the first time.
    """

    first: int
    names: list[str]
    numbers: NDArray[np.int32]


class Beliefs(NamedTuple):
    """Of tasks: their number of labels, gold class or -1, whether they are open, and scores."""

    tasks: Numbered
    labels: NDArray[np.int32]
    gold: NDArray[np.int16]
    is_open: NDArray[np.bool_]
    scores: Floats


class Counts(NamedTuple):
    """Of workers: n, a and F, a row for each."""

    workers: Numbered
    counts: Floats


class Whole(NamedTuple):
    """All tasks and workers of the partition have been told; it adds `sums` to the crowd's."""

    sums: Sums


class Rest(NamedTuple):
    """Whether the instance that owns the partition is at rest, and how many tasks are due.

    For people and tools: instances do nothing with it.
    """

    is_at_rest: bool
    due: int


class Ask(NamedTuple):
    """The owner of the partition asks all others to tell everything again.

    It was started again without a rebalance, as a member of the group that has a name.
    """


Estimates = Beliefs | Counts | Sums | Whole | Rest | Ask


def encode_estimates(epoch: int, told: Estimates) -> bytes:
    """The value of a record; `epoch` is that of the owner.

    >>> workers = Numbered(5, ["w1"], np.array([5], np.int32))
    >>> value = encode_estimates(3, Counts(workers, np.array([[2.0, 1.5, 1.0, 1.0]])))
    >>> epoch, told = parse_estimates(value, classes=2)
    >>> told.workers.names, told.counts.tolist()
    (['w1'], [[2.0, 1.5, 1.0, 1.0]])
    """
    fields: dict[str, object] = {"epoch": epoch}
    match told:
        case Beliefs():
            columns = (
                _add_numbered(fields, told.tasks),
                told.labels.astype("<i4"),
                told.gold.astype("<i2"),
                told.is_open.astype("?"),
                told.scores,
            )
            return encode_columns("beliefs", fields, columns)
        case Counts():
            return encode_columns(
                "counts", fields, (_add_numbered(fields, told.workers), told.counts)
            )
        case Whole():
            return encode_columns("whole", fields, (_as_column(told.sums),))
        case Rest():
            fields["due"], fields["at_rest"] = told.due, int(told.is_at_rest)
            return encode_columns("rest", fields, ())
        case Ask():
            return encode_columns("ask", fields, ())
    return encode_columns("sums", fields, (_as_column(told),))


def parse_estimates(value: bytes | None, classes: int) -> tuple[int, Estimates]:
    """The epoch and the estimates in a record's value, or `BadRecord`."""
    record = Columns(value)
    epoch = record.number("epoch")
    told: Estimates
    if record.kind == "beliefs":
        tasks = _numbered(record)
        rows = len(tasks.numbers)
        labels, gold = record.column("<i4", rows), record.column("<i2", rows)
        is_open, scores = record.column("?", rows), record.numbers(rows, classes)
        if rows and (labels.min() < 0 or gold.min() < -1 or gold.max() >= classes):
            raise NOT_OURS
        told = Beliefs(tasks, labels, gold, is_open, scores)
    elif record.kind == "counts":
        workers = _numbered(record)
        told = Counts(workers, record.numbers(len(workers.numbers), 2 + classes))
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
    elif record.kind == "rest":
        told = Rest(bool(record.number("at_rest")), record.number("due"))
    elif record.kind == "ask":
        told = Ask()
    else:
        raise NOT_OURS
    record.end()
    return epoch, told


def parse_rest(value: bytes | None) -> Rest | None:
    """What a record says of rest; None if it tells of something else, or is not ours.

    >>> parse_rest(encode_estimates(3, Rest(True, 0)))
    Rest(is_at_rest=True, due=0)
    """
    try:
        record = Columns(value)
        if record.kind != "rest":
            return None
        return Rest(bool(record.number("at_rest")), record.number("due"))
    except BadRecord:
        return None


def _add_numbered(fields: dict[str, object], told: Numbered) -> NDArray[np.int32]:
    """Put what rows are about into the fields; its numbers are a column."""
    fields |= {"rows": len(told.numbers), "first": told.first, "names": told.names}
    return told.numbers.astype("<i4")


def _numbered(record: Columns) -> Numbered:
    told = Numbered(
        record.number("first"), record.names("names"), record.column("<i4", record.number("rows"))
    )
    if len(told.numbers) and told.numbers.min() < 0:
        raise NOT_OURS
    return told


def _as_column(sums: Sums) -> Floats:
    return np.array([sums.given, sums.right, sums.tasks, *sums.rho])
