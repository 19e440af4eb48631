"""Facts: what users and stop rules set for tasks, stored with the votes in the evidence topic."""

from typing import Any, NamedTuple

from pipeline.records.columns import NOT_OURS, Columns, encode_columns, is_id, is_number
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
    """Facts of one partition; `epoch` increases with every new owner."""

    epoch: int
    rows: list[Fact]


def encode_facts(facts: Facts) -> bytes:
    """The value of a record.

    >>> fact = Fact("t1", None, 1, "request", False, 7, 1700000000000)
    >>> read_facts(Columns(encode_facts(Facts(2, [fact]))), classes=2) == (2, [fact])
    True
    """
    rows = [tuple(fact) for fact in facts.rows]
    return encode_columns("facts", {"epoch": facts.epoch, "rows": rows}, ())


def read_facts(record: Columns, classes: int) -> Facts:
    """The facts in a record, or `BadRecord`."""
    rows = record.fields.get("rows")
    if record.kind != "facts" or type(rows) is not list:
        raise NOT_OURS
    if not all(_is_fact(row, classes) for row in rows):
        raise NOT_OURS
    record.end()
    return Facts(record.number("epoch"), [Fact(*row) for row in rows])


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
