"""What the next owner of a partition recovers from: answers of workers, facts of tasks."""

from typing import Any, NamedTuple

import numpy as np

from sbic.wire.bad import parser
from sbic.wire.columns import (
    NO_NAMES,
    NOT_OURS,
    Columns,
    Names,
    encode_columns,
    is_id,
    is_number,
    read_names,
)
from sbic.wire.posteriors import CLOSE_REASONS, CloseReason
from sbic.wire.votes import NOBODY


class Piece(NamedTuple):
    """The time in nanoseconds at which some labels were taken, and the offset of the last."""

    time: int
    upto: int


class VotesFor(NamedTuple):
    """An encoded record of votes, and the partition of tasks that it is for."""

    home: int
    value: bytes


class Answers(NamedTuple):
    """Labels of one partition that were taken together.

    `pieces`: for each piece of labels, the time in nanoseconds at which it was taken, and the
    offset of its last label. On one instance the times order the labels of all partitions.
    `votes`: encoded votes by partition of tasks, or NOBODY.
    `marks`: those of the labels that were forwarded here (`origin.mark_of`).
    `more`: whether the next record belongs to the same publication.
    """

    pieces: list[Piece]
    votes: list[VotesFor]
    marks: list[int]
    more: bool = False

    @property
    def upto(self) -> int:
        """The offset of the last label taken."""
        return self.pieces[-1].upto


def encode_answers(answers: Answers) -> bytes:
    """The value of a record.

    >>> answers = Answers([Piece(7, 42)], [VotesFor(3, b"abc"), VotesFor(1, b"d")], [])
    >>> parse_answers(encode_answers(answers)) == answers
    True
    """
    parts = [(home, len(votes)) for home, votes in answers.votes]
    pieces = [tuple(piece) for piece in answers.pieces]  # orjson takes no other tuples
    fields: dict[str, object] = {"pieces": pieces, "parts": parts, "more": answers.more}
    if answers.marks:
        fields["marks"] = answers.marks
    return encode_columns("answers", fields, ()) + b"".join(votes for _, votes in answers.votes)


@parser
def parse_answers(value: bytes | None) -> Answers:
    """The answers in a record's value, or `BadRecord`."""
    record = Columns(value)
    pieces, parts = _pairs(record, "pieces"), _pairs(record, "parts", least=NOBODY)
    if record.kind != "answers" or not pieces:
        raise NOT_OURS
    votes, at = [], 0
    for home, size in parts:
        votes.append(VotesFor(home, record.rest[at : at + size]))
        at += size
    if at != len(record.rest):
        raise NOT_OURS
    marks = record.fields.get("marks", [])
    if type(marks) is not list or not all(map(is_number, marks)):
        raise NOT_OURS
    taken = [Piece(time, upto) for time, upto in pieces]
    return Answers(taken, votes, marks, record.fields.get("more") is True)


def _pairs(record: Columns, field: str, least: int = 0) -> list[tuple[int, int]]:
    """The pairs of numbers in a field; the first of each is at least `least`."""
    found = record.fields.get(field)
    if type(found) is not list or not all(_is_pair(value, least) for value in found):
        raise NOT_OURS
    return [(first, second) for first, second in found]


def _is_pair(value: object, least: int) -> bool:
    if type(value) is not list or len(value) != 2:
        return False
    return is_number(value[0], least) and is_number(value[1])


# Facts: what users and stop rules set for tasks, stored with the votes in the evidence topic.


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
