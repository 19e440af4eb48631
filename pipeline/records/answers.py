"""Answers: the labels that the owner of a partition took; the next owner recovers from them."""

from typing import NamedTuple

from pipeline.records.bad import parser
from pipeline.records.columns import NOT_OURS, Columns, encode_columns, is_number
from pipeline.records.votes import NOBODY


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
