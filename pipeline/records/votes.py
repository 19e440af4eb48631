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
from pipeline.records.columns import encode_columns

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
    """The value of a record; `many_votes` reads it."""
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
