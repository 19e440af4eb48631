"""What the next owner of a partition recovers from: answers of workers, facts of tasks."""

from typing import NamedTuple

from sbic.wire.bad import parser
from sbic.wire.columns import (
    NO_NAMES,
    Columns,
    Names,
    encode_columns,
    read_names,
)
from sbic.wire.posteriors import CloseReason


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
    `drifting`: since when workers of these labels drift, in milliseconds, or 0: only what changed.
    """

    pieces: list[Piece]
    votes: list[VotesFor]
    marks: list[int]
    more: bool = False
    drifting: dict[str, int] | None = None

    @property
    def upto(self) -> int:
        """The offset of the last label taken."""
        return self.pieces[-1].upto


def encode_answers(answers: Answers) -> bytes:
    """Return the value of a record.

    >>> answers = Answers([Piece(7, 42)], [VotesFor(3, b"abc"), VotesFor(1, b"d")], [])
    >>> parse_answers(encode_answers(answers)) == answers
    True
    """
    parts = [(home, len(votes)) for home, votes in answers.votes]
    pieces = [tuple(piece) for piece in answers.pieces]  # orjson takes no other tuples
    fields: dict[str, object] = {"pieces": pieces, "parts": parts, "more": answers.more}
    if answers.marks:
        fields["marks"] = answers.marks
    if answers.drifting:
        fields["drifting"] = answers.drifting
    return encode_columns("answers", fields, ()) + b"".join(votes for _, votes in answers.votes)


@parser
def parse_answers(value: bytes | None) -> Answers:
    """Return the answers in a record's value, or `BadRecord`."""
    record = Columns(value)
    votes, at = [], 0
    for home, size in record.fields["parts"]:
        votes.append(VotesFor(home, record.rest[at : at + size]))
        at += size
    pieces = [Piece(time, upto) for time, upto in record.fields["pieces"]]
    fields = record.fields
    return Answers(pieces, votes, fields.get("marks", []), fields["more"], fields.get("drifting"))


# Facts: what users and stop rules set for tasks, stored with the votes in the evidence topic.


class Fact(NamedTuple):
    """All settings of a task.

    It is closed if there is a `reason`. `offset` is that of the last record of the tasks topic that
    was applied, or -1. If a recount has kept the task closed or reopened, `kept_at` is when, in
    milliseconds, and `decided` the offset of the last record of tasks that it had seen before.
    """

    task: str
    prior: list[float] | None
    gold: int | None
    reason: CloseReason | None
    reopened: bool
    offset: int
    updated_at: int
    kept_at: int = 0
    decided: int = -1


class Facts(NamedTuple):
    """Facts of one partition.

    `epoch` increases with every new owner. `recent` are tasks whose posteriors it publishes again:
    if it crashes before that, the next owner does.
    """

    epoch: int
    rows: list[Fact]
    recent: Names = NO_NAMES


def encode_facts(facts: Facts) -> bytes:
    """Return the value of a record.

    >>> fact = Fact("t1", None, 1, "request", False, 7, 1700000000000)
    >>> facts = Facts(2, [fact], Names.of(["t2", "t3"]))
    >>> read_facts(Columns(encode_facts(facts))) == facts
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
def read_facts(record: Columns) -> Facts:
    """Return the facts in a record, or `BadRecord`."""
    rows = [Fact(*row) for row in record.fields["rows"]]
    count, size = record.number("recent"), record.number("bytes")
    lengths, text = record.column("<u2", count), record.column("u1", size)
    return Facts(record.number("epoch"), rows, read_names(text.tobytes(), lengths))
