"""Facts: what users and stop rules set for tasks, stored with the votes in the evidence topic."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.records.bad import parser
from pipeline.records.columns import NOT_OURS, Columns, encode_columns, is_id, is_number
from pipeline.records.names import NO_NAMES, Names, read_names
from pipeline.records.posteriors import CLOSE_REASONS, CloseReason


class Fact(NamedTuple):
    """All settings of a task.

    It is closed if there is a `reason`. `offset` is that of the last record of the tasks topic that
    was applied, or -1.
    """

    task: str
    prior: list[float] | None
    gold: int | None
    reason: CloseReason | None
    reopened: bool
    offset: int
    updated_at: int


class Facts(NamedTuple):
    """Facts of one partition.

    `epoch` increases with every new owner. `recent` are tasks whose posteriors it publishes again:
    if it crashes before that, the next owner does.
    """

    epoch: int
    rows: list[Fact]
    recent: Names = NO_NAMES


def encode_facts(facts: Facts) -> bytes:
    """The value of a record.

    >>> fact = Fact("t1", None, 1, "request", False, 7, 1700000000000)
    >>> facts = Facts(2, [fact], Names.of(["t2", "t3"]))
    >>> read_facts(Columns(encode_facts(facts)), classes=2) == facts
    True
    """
    recent = facts.recent
    fields = {
        "epoch": facts.epoch,
        "rows": [tuple(fact) for fact in facts.rows],
        "recent": len(recent),
        "bytes": len(recent.text),
    }
    return encode_columns("facts", fields, (recent.lengths.astype("<u2"), recent.text))


@parser
def read_facts(record: Columns, classes: int) -> Facts:
    """The facts in a record, or `BadRecord`."""
    rows = record.fields.get("rows")
    if record.kind != "facts" or type(rows) is not list:
        raise NOT_OURS
    if not all(_is_fact(row, classes) for row in rows):
        raise NOT_OURS
    recent = _read_recent(record)
    return Facts(record.number("epoch"), [Fact(*row) for row in rows], recent)


def _read_recent(record: Columns) -> Names:
    count, size = record.number("recent"), record.number("bytes")
    lengths, text = record.column("<u2", count), record.column("u1", size)
    record.end()
    recent, are_ids = read_names([text.tobytes()], lengths, np.array([count]))
    if not are_ids.all():
        raise NOT_OURS
    return recent


def _is_fact(row: Any, classes: int) -> bool:
    if type(row) is not list or len(row) != len(Fact._fields):
        return False
    fact = Fact(*row)
    return (
        type(fact.task) is str
        and is_id(fact.task)
        and (fact.prior is None or _is_prior(fact.prior, classes))
        and (fact.gold is None or (type(fact.gold) is int and 0 <= fact.gold < classes))
        and (fact.reason is None or fact.reason in CLOSE_REASONS)
        and type(fact.reopened) is bool
        and is_number(fact.offset, least=-1)
        and is_number(fact.updated_at, least=-1)
    )


def _is_prior(value: Any, classes: int) -> bool:
    return type(value) is list and len(value) == classes and all(map(_is_share, value))


def _is_share(value: Any) -> bool:
    return type(value) is float and 0 < value < 1
