"""Estimates: the owner of a partition publishes them about its tasks and workers.

Every instance consumes them. They are published as they change, and completely after every
rebalance or on request, so that an instance that starts to consume then has all of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats
from sbic.engine.state import Sums
from sbic.wire.bad import BadRecord, parser
from sbic.wire.columns import NOT_OURS, Columns, encode_columns


class Numbered(NamedTuple):
    """The tasks or workers of the rows, by the numbers that their owner has given them.

    `names` are those of the numbers from `first` on, which are published for the first time.
    """

    first: int
    names: list[str]
    numbers: NDArray[np.int32]


class Beliefs(NamedTuple):
    """For each task: its number of labels, gold class or -1, whether it is open, and scores."""

    tasks: Numbered
    labels: NDArray[np.int32]
    gold: NDArray[np.int16]
    is_open: NDArray[np.bool_]
    scores: Floats


class Counts(NamedTuple):
    """For each worker: a row of n, a and F."""

    workers: Numbered
    counts: Floats


class Whole(NamedTuple):
    """All tasks and workers of the partition have been published; `sums` are its part."""

    sums: Sums


class Rest(NamedTuple):
    """Whether the instance that owns the partition is at rest, and how many tasks are due.

    For people and tools; instances ignore it.
    """

    is_at_rest: bool
    due: int


class Ask(NamedTuple):
    """The owner of the partition requests complete estimates from all others.

    It was restarted without a rebalance, as a static member of the group.
    """


Estimates = Beliefs | Counts | Sums | Whole | Rest | Ask


def encode_estimates(epoch: int, estimates: Estimates) -> bytes:
    """The value of a record with the owner's epoch.

    >>> workers = Numbered(5, ["w1"], np.array([5], np.int32))
    >>> value = encode_estimates(3, Counts(workers, np.array([[2.0, 1.5, 1.0, 1.0]])))
    >>> epoch, estimates = parse_estimates(value, classes=2)
    >>> estimates.workers.names, estimates.counts.tolist()
    (['w1'], [[2.0, 1.5, 1.0, 1.0]])
    """
    fields: dict[str, object] = {"epoch": epoch}
    match estimates:
        case Beliefs():
            columns = (
                _add_numbered(fields, estimates.tasks),
                estimates.labels.astype("<i4"),
                estimates.gold.astype("<i2"),
                estimates.is_open.astype("?"),
                estimates.scores,
            )
            return encode_columns("beliefs", fields, columns)
        case Counts():
            return encode_columns(
                "counts", fields, (_add_numbered(fields, estimates.workers), estimates.counts)
            )
        case Whole():
            return encode_columns("whole", fields, (_as_column(estimates.sums),))
        case Rest():
            fields["due"], fields["at_rest"] = estimates.due, int(estimates.is_at_rest)
            return encode_columns("rest", fields, ())
        case Ask():
            return encode_columns("ask", fields, ())
    return encode_columns("sums", fields, (_as_column(estimates),))


@parser
def parse_estimates(value: bytes | None, classes: int) -> tuple[int, Estimates]:
    """The epoch and the estimates in a record's value, or `BadRecord`."""
    record = Columns(value)
    epoch = record.number("epoch")
    estimates: Estimates
    if record.kind == "beliefs":
        tasks = _numbered(record)
        rows = len(tasks.numbers)
        labels, gold = record.column("<i4", rows), record.column("<i2", rows)
        is_open, scores = record.column("?", rows), record.column("<f8", rows, classes)
        estimates = Beliefs(tasks, labels, gold, is_open, scores)
    elif record.kind == "counts":
        workers = _numbered(record)
        estimates = Counts(workers, record.column("<f8", len(workers.numbers), 2 + classes))
    elif record.kind in ("sums", "whole"):
        sums = record.column("<f8", 3 + classes)
        given, right, tasks_, *rho = sums.tolist()
        estimates = Sums(given, right, tasks_, np.array(rho))
        if record.kind == "whole":
            estimates = Whole(estimates)
    elif record.kind == "rest":
        estimates = Rest(bool(record.number("at_rest")), record.number("due"))
    elif record.kind == "ask":
        estimates = Ask()
    else:
        raise NOT_OURS
    return epoch, estimates


@parser
def parse_rest(value: bytes | None) -> Rest | None:
    """The `Rest` in a record's value; None for any other record.

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


def _add_numbered(fields: dict[str, object], rows: Numbered) -> NDArray[np.int32]:
    """Add the names to the fields; return the column of numbers."""
    fields |= {"rows": len(rows.numbers), "first": rows.first, "names": rows.names}
    return rows.numbers.astype("<i4")


def _numbered(record: Columns) -> Numbered:
    return Numbered(
        record.number("first"), record.names("names"), record.column("<i4", record.number("rows"))
    )


def _as_column(sums: Sums) -> Floats:
    return np.array([sums.given, sums.right, sums.tasks, *sums.rho])
