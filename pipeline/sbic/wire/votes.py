"""Votes: labels that stand, sent from the owner of their worker to the owner of their task.

The owner of a partition of workers takes labels and decides which of them stand. It makes one
record of votes for each partition of tasks, and publishes it if another instance owns that. The
same bytes are stored in the answers of the partition of workers, and in the evidence of the
partition of tasks. So a record is encoded once, and recovery parses the same format.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats, Ints
from sbic.wire.bad import parser
from sbic.wire.columns import NOT_OURS, Columns, Names, encode_columns, read_names

REPEAT = -3
"""In place of a class: a repeated answer, which changes nothing but is reported as processed."""

NOTHING = -4
"""In place of a class: a label that changes nothing and is sent to no task: it takes back an answer
that was not given, or was forwarded a second time."""

NOBODY = -1
"""In place of a partition of tasks: for skips and labels that change nothing."""


class Votes(NamedTuple):
    """Labels of workers of the partition `source`, in the order of their offsets there.

    `answers` are classes, RETRACT, SKIP, REPEAT or NOTHING. `votes` are what Fast SBIC adds to the
    log-odds. `counts` are each worker's n, a and F under settled, if another instance owns the
    tasks; otherwise `counts` has no columns.
    """

    source: int
    tasks: Names
    workers: Names
    answers: NDArray[np.int16]
    offsets: Ints
    timestamps: Ints
    votes: Floats
    counts: Floats


def encode_votes(votes: Votes) -> bytes:
    """Return the value of a record; `VotesReader` reads it."""
    tasks, workers = votes.tasks, votes.workers
    return encode_columns(
        "votes",
        {
            "source": votes.source,
            "width": votes.counts.shape[1],
            "rows": len(votes.answers),
            "tasks": len(tasks.text),
            "workers": len(workers.text),
        },
        (
            *(votes.answers, votes.offsets, votes.timestamps, votes.votes, votes.counts),
            *(tasks.lengths.astype("<u2"), workers.lengths.astype("<u2")),
            *(tasks.text, workers.text),
        ),
    )


# The votes of many records, read and checked together.
#
# A numpy call costs as much as many rows, and a record of votes may have few rows, so the rows of
# all records are processed together.


Bools = NDArray[np.bool_]
Entry = TypeVar("Entry", np.int64, np.bool_)


class ManyVotes(NamedTuple):
    """The votes of several records in sequence.

    `sources`, `lengths` and `has_counts` have an entry for each record: its labels partition, its
    number of votes, and whether it has the workers' counts. `counts` has only the rows of those
    records. The other columns have an entry for each vote, as in `Votes`.
    """

    sources: Ints
    lengths: Ints
    has_counts: Bools
    tasks: Names
    workers: Names
    answers: NDArray[np.int16]
    offsets: Ints
    timestamps: Ints
    votes: Floats
    counts: Floats

    @property
    def ends(self) -> Ints:
        """The position after the last vote of each record."""
        return np.cumsum(self.lengths)

    def by_vote(self, column: NDArray[Entry]) -> NDArray[Entry]:
        """Expand a column of records to an entry for each vote."""
        return np.repeat(column, self.lengths)

    def only(self, records: Bools) -> "ManyVotes":
        """Return some of the records."""
        if records.all():
            return self
        rows = self.by_vote(records)
        told = np.repeat(records[self.has_counts], self.lengths[self.has_counts])
        return ManyVotes(
            self.sources[records],
            self.lengths[records],
            self.has_counts[records],
            self.tasks.take(np.flatnonzero(rows)),
            self.workers.take(np.flatnonzero(rows)),
            self.answers[rows],
            self.offsets[rows],
            self.timestamps[rows],
            self.votes[rows],
            self.counts[told],
        )

    def having(self, which: Bools) -> tuple["ManyVotes", Bools]:
        """Return the records that have some of these votes, and which of their votes these are."""
        records = np.zeros(len(self.lengths), np.bool_)
        records[self.by_vote(np.arange(len(records)))[which]] = True
        return self.only(records), which[self.by_vote(records)]


MOST_WITH_COUNTS = 8  # whose counts go with votes: of more they would be larger than the rest


def counts_width(classes: int) -> int:
    """How many numbers the counts of a worker are in a record of votes; 0 if they are left out."""
    return classes * classes if classes <= MOST_WITH_COUNTS else 0


class VotesReader:
    """Collects the votes of records one by one."""

    def __init__(self, classes: int) -> None:
        self.width = counts_width(classes)
        self.sources: list[int] = []
        self.lengths: list[int] = []
        self.has_counts: list[bool] = []
        self.tasks: list[bytes] = []
        self.workers: list[bytes] = []
        self.columns: tuple[list[bytes], ...] = [], [], [], [], [], [], []

    @parser
    def add(self, record: Columns) -> None:
        """Add the votes of a record, or raise `BadRecord` if it is malformed."""
        source, width, rows = map(record.number, ("source", "width", "rows"))
        tasks, workers = map(record.number, ("tasks", "workers"))
        rest, numbers = record.rest, rows * (26 + 8 * width)
        is_whole = len(rest) == numbers + 4 * rows + tasks + workers and (rows or not rest)
        if record.kind != "votes" or not is_whole or width not in (0, self.width):
            raise NOT_OURS
        self.sources.append(source)
        self.lengths.append(rows)
        self.has_counts.append(width > 0)
        self.tasks.append(rest[len(rest) - workers - tasks : len(rest) - workers])
        self.workers.append(rest[len(rest) - workers :])
        answers, offsets, timestamps, votes, counts, task_bytes, worker_bytes = self.columns
        answers.append(rest[: 2 * rows])
        offsets.append(rest[2 * rows : 10 * rows])
        timestamps.append(rest[10 * rows : 18 * rows])
        votes.append(rest[18 * rows : 26 * rows])
        counts.append(rest[26 * rows : numbers])
        task_bytes.append(rest[numbers : numbers + 2 * rows])
        worker_bytes.append(rest[numbers + 2 * rows : numbers + 4 * rows])

    def read(self) -> ManyVotes:
        """Return the votes of all records added."""
        joined = (bytearray().join(column) for column in self.columns)
        kinds = ("<i2", "<i8", "<i8", "<f8", "<f8", "<u2", "<u2")
        answers, offsets, timestamps, votes, counts, task_bytes, worker_bytes = map(
            np.frombuffer, joined, kinds
        )
        return ManyVotes(
            np.array(self.sources, np.int64),
            np.array(self.lengths, np.int64),
            np.array(self.has_counts, np.bool_),
            read_names(b"".join(self.tasks), task_bytes),
            read_names(b"".join(self.workers), worker_bytes),
            answers,
            offsets,
            timestamps,
            votes,
            counts.reshape(-1, max(1, self.width)),
        )


def parse_votes(value: bytes | None, classes: int) -> Votes:
    """Return the votes in one record's value, or `BadRecord`.

    >>> from sbic.wire.votes import encode_votes
    >>> one = np.array([1], "<i2"), np.array([42]), np.array([1700000000000]), np.array([0.5])
    >>> votes = Votes(3, Names.of(["t1"]), Names.of(["w1"]), *one, counts=np.empty((1, 0)))
    >>> source, tasks, workers, answers, *_ = parse_votes(encode_votes(votes), classes=2)
    >>> source, list(tasks), list(workers), answers
    (3, ['t1'], ['w1'], array([1], dtype=int16))
    """
    reader = VotesReader(classes)
    reader.add(Columns(value))
    many = reader.read()
    counts = many.counts if many.has_counts[0] else np.empty((len(many.tasks), 0))
    return Votes(int(many.sources[0]), *many[3:9], counts)
