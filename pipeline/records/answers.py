"""Answers: what the owner of a partition of workers took, from which the next owner recovers."""

from typing import NamedTuple

from pipeline.records.columns import NOT_OURS, Columns, encode_columns, is_number
from pipeline.records.votes import NOBODY


class Answers(NamedTuple):
    """Labels of one partition that were taken together: their votes, by partition of tasks.

    `pieces` has the time in nanoseconds of each piece of labels that was taken, and the offset of
    its last label: on one instance the times order the labels of all partitions. There may be
    `more` records of what was published together. `marks` are those of the labels that were
    forwarded here (`origin.mark_of`).
    """

    pieces: list[tuple[int, int]]
    votes: list[tuple[int, bytes]]
    marks: list[int]
    more: bool = False

    @property
    def upto(self) -> int:
        """The offset of the last label taken."""
        return self.pieces[-1][1]


def encode_answers(answers: Answers) -> bytes:
    """The value of a record.

    >>> parse_answers(encode_answers(Answers([(7, 42)], [(3, b"abc"), (1, b"d")], [])))
    Answers(pieces=[(7, 42)], votes=[(3, b'abc'), (1, b'd')], marks=[], more=False)
    """
    parts = [(home, len(votes)) for home, votes in answers.votes]
    fields: dict[str, object] = {"pieces": answers.pieces, "parts": parts, "more": answers.more}
    if answers.marks:
        fields["marks"] = answers.marks
    return encode_columns("answers", fields, ()) + b"".join(votes for _, votes in answers.votes)


def parse_answers(value: bytes | None) -> Answers:
    """The answers in a record's value, or `BadRecord`."""
    record = Columns(value)
    pieces, parts = _pairs(record, "pieces"), _pairs(record, "parts", least=NOBODY)
    if record.kind != "answers" or not pieces:
        raise NOT_OURS
    votes, at = [], 0
    for home, size in parts:
        votes.append((home, record.rest[at : at + size]))
        at += size
    if at != len(record.rest):
        raise NOT_OURS
    marks = record.fields.get("marks", [])
    if type(marks) is not list or not all(map(is_number, marks)):
        raise NOT_OURS
    return Answers(pieces, votes, marks, record.fields.get("more") is True)


def _pairs(record: Columns, field: str, least: int = 0) -> list[tuple[int, int]]:
    """Pairs of numbers; the first ones are this or more."""
    found = record.fields.get(field)
    if type(found) is not list or not all(_is_pair(value, least) for value in found):
        raise NOT_OURS
    return [(first, second) for first, second in found]


def _is_pair(value: object, least: int) -> bool:
    if type(value) is not list or len(value) != 2:
        return False
    return is_number(value[0], least) and is_number(value[1])
