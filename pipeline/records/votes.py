"""Votes: labels that stand, on their way from the owner of their worker to the owner of their task.

The owner of a partition of workers takes labels, and decides which of them stand. What it made of
them is one record for each partition of tasks. The same record is kept twice more: among the
answers of the partition of workers, and as evidence of the partition of tasks. So it is encoded
once, and whoever recovers reads what it would have read anyway.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.records.columns import MOST, NOT_OURS, Columns, are_counts, encode_columns

REPEAT = -3
"""In place of a class: an answer given before, which changes nothing and yet is dealt with."""

NOTHING = -4
"""In place of a class: a label that changes nothing and goes to nobody, and yet is dealt with: it
takes back what was not given, or was forwarded a second time."""

MOST_VOTE = 1000.0  # of either sign: beyond it the probability is exactly 1 in a double

NOBODY = -1
"""In place of a partition of tasks: skips and labels that change nothing, which go to no task."""


class Votes(NamedTuple):
    """Labels of workers of the partition `source`, in the order of their offsets there.

    `answers` are classes, RETRACT, SKIP, REPEAT or NOTHING. `votes` are what Fast SBIC adds to the
    log-odds. `counts` are what settled knew of each worker then (n, a and F), if the task is
    elsewhere; else there are no columns in it.
    """

    source: int
    tasks: list[str]
    workers: list[str]
    answers: NDArray[np.int16]
    offsets: Ints
    timestamps: Ints
    votes: Floats
    counts: Floats


def encode_votes(votes: Votes) -> bytes:
    """The value of a record.

    >>> one = np.array([1], "<i2"), np.array([42]), np.array([1700000000000]), np.array([0.5])
    >>> votes = Votes(3, ["t1"], ["w1"], *one, counts=np.empty((1, 0)))
    >>> parse_votes(encode_votes(votes), classes=2)[:4]
    (3, ['t1'], ['w1'], array([1], dtype=int16))
    """
    return encode_columns(
        "votes",
        {
            "source": votes.source,
            "width": votes.counts.shape[1],
            "task": votes.tasks,
            "worker": votes.workers,
        },
        (votes.answers, votes.offsets, votes.timestamps, votes.votes, votes.counts),
    )


def parse_votes(value: bytes | None, classes: int) -> Votes:
    """The votes in a record's value, or `BadRecord`."""
    return read_votes(Columns(value), classes)


def read_votes(record: Columns, classes: int) -> Votes:
    """The votes in a record, or `BadRecord`."""
    tasks, workers = record.names("task"), record.names("worker")
    rows, width = len(tasks), record.number("width")
    if record.kind != "votes" or len(workers) != rows or width not in (0, 2 + classes):
        raise NOT_OURS
    votes = Votes(
        record.number("source"),
        tasks,
        workers,
        record.column("<i2", rows),
        record.column("<i8", rows),
        record.column("<i8", rows),
        record.numbers(rows),
        record.numbers(rows, width),
    )
    record.end()
    if rows and not (
        NOTHING <= votes.answers.min() <= votes.answers.max() < classes
        and np.abs(votes.votes).max() <= MOST_VOTE
        and are_counts(votes.counts)
        and votes.offsets[0] >= 0
        and votes.offsets[-1] < MOST
        and (votes.offsets[1:] > votes.offsets[:-1]).all()
    ):
        raise NOT_OURS
    return votes
