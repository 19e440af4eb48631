"""Votes: labels that stand, sent from the owner of their worker to the owner of their task.

The owner of a partition of workers takes labels and decides which of them stand. It makes one
record of votes for each partition of tasks, and publishes it if another instance owns that. The
same bytes are stored in the answers of the partition of workers, and in the evidence of the
partition of tasks. So a record is encoded once, and recovery parses the same format.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.records.columns import encode_columns
from pipeline.records.names import Names

REPEAT = -3
"""In place of a class: a repeated answer, which changes nothing but is reported as processed."""

NOTHING = -4
"""In place of a class: a label that changes nothing and is sent to no task: it takes back an answer
that was not given, or was forwarded a second time."""

MOST_VOTE = 1000.0  # in absolute value: beyond, the probability is exactly 1 in a double

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
    """The value of a record; `many_votes` reads it."""
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
