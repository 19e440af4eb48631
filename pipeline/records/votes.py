"""Votes, from the worker agent to the task agent, and the answers they came from.

The worker agent takes a batch of labels from one partition at a time. What it made of them goes
out twice: as one record of the answers topic, from which the agent recovers, and as one record of
the votes topic for each partition of tasks. Both hold the same rows, so each row is encoded once.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from orjson import OPT_NON_STR_KEYS, Fragment, dumps

from pipeline.records.bad import BadRecord, Reason, read_object

Vote = Sequence[Any]
"""Task, worker, label, vote, labels, offset, timestamp.

`label` is the worker's answer now, `None` after it was taken back, 0 for a skip. `vote` is what to
add to the task's log-odds and `labels` what to add to its number of labels: 1 for a new answer, -1
for one taken back, 0 for one that was changed or only repeated. `offset` is the label's own in its
partition of the labels topic, `timestamp` too, in milliseconds.
"""

VotesByPartition = dict[int, list[Vote]]

SKIPS = -1
"""In the place of a partition of tasks: rows that are remembered and go to no task."""


class Answers(NamedTuple):
    """A record of the answers topic: the votes of a group, by partition of their tasks.

    `taken` has the time in nanoseconds of each piece of labels that was taken, and the offset of
    its last label: on one instance the times order the labels of all partitions.
    """

    taken: list[tuple[int, int]]
    votes: VotesByPartition

    @property
    def upto(self) -> int:
        """The offset of the last label taken."""
        return self.taken[-1][1]


def encode_answers(answers: Answers, source: int) -> tuple[bytes, dict[int, bytes]]:
    """The record of the answers topic, and the record of the votes topic for each partition.

    >>> row = ["t1", "w1", 1, 0.5, 1, 42, 1700000000000]
    >>> record, votes = encode_answers(Answers([(7, 42)], {3: [row]}), source=0)
    >>> parse_answers(record)
    Answers(taken=[[7, 42]], votes={3: [['t1', 'w1', 1, 0.5, 1, 42, 1700000000000]]})
    >>> parse_votes(votes[3])
    (0, [['t1', 'w1', 1, 0.5, 1, 42, 1700000000000]])
    """
    rows = {partition: dumps(votes) for partition, votes in answers.votes.items()}
    fragments = {partition: Fragment(row) for partition, row in rows.items()}
    record = dumps({"taken": answers.taken, "votes": fragments}, option=OPT_NON_STR_KEYS)
    return record, {
        partition: b'{"source":%d,"votes":%b}' % (source, row)
        for partition, row in rows.items()
        if partition != SKIPS
    }


def parse_answers(value: bytes | None) -> Answers:
    """The record of the answers topic; or `BadRecord` for what a stranger wrote.

    >>> parse_answers(b'{"taken": [], "votes": {}}')
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: not a record of answers
    """
    record = read_object(value)
    taken, votes = record.get("taken"), record.get("votes")
    if type(taken) is list and taken and all(map(_is_piece, taken)) and type(votes) is dict:
        by_partition = {int(name): rows for name, rows in votes.items() if INTEGER.fullmatch(name)}
        are_votes = all(type(rows) is list and _are_votes(rows) for rows in by_partition.values())
        if are_votes and len(by_partition) == len(votes):
            return Answers(taken, by_partition)
    raise BadRecord(Reason.BAD_FIELD, "not a record of answers")


INTEGER = re.compile("-1|[0-9]{1,9}")


def _is_piece(piece: Any) -> bool:
    return type(piece) is list and len(piece) == 2 and set(map(type, piece)) == {int}


def parse_votes(value: bytes | None) -> tuple[int, list[Vote]]:
    """The labels partition that the votes came from, and the votes; or `BadRecord`.

    >>> parse_votes(b'{"source": 0, "votes": [["t1"]]}')
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: not a record of votes
    """
    record = read_object(value)
    source, rows = record.get("source"), record.get("votes")
    if type(source) is int and type(rows) is list and _are_votes(rows):
        return source, rows
    raise BadRecord(Reason.BAD_FIELD, "not a record of votes")


SHAPE: tuple[set[type], ...] = ({str}, {str}, {int, type(None)}, {float}, {int}, {int}, {int})


def _are_votes(rows: list[Any]) -> bool:
    # by columns: a check of every row costs as much as counting its vote
    if not rows or set(map(type, rows)) != {list} or set(map(len, rows)) != {len(SHAPE)}:
        return False
    columns = list(zip(*rows, strict=True))
    return all(
        set(map(type, column)) <= kinds for column, kinds in zip(columns, SHAPE, strict=True)
    ) and set(columns[4]) <= {1, 0, -1}
