"""Labels as columns, the input of the stages, and their conversion from records of votes."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Ints
from pipeline.records.many_votes import ManyVotes
from pipeline.records.names import Names

Numbers = Callable[[Names], Ints]
"""Returns the numbers of names."""


class Rows(NamedTuple):
    """Labels as columns; `sources` are the partitions of their offsets."""

    tasks: Ints
    workers: Ints
    answers: Ints
    offsets: Ints
    timestamps: Ints
    sources: Ints

    def only(self, which: NDArray[np.bool_] | Ints) -> "Rows":
        """Some of the rows."""
        return Rows(*(column[which] for column in self))


def by_home(homes: NDArray[np.integer[Any]]) -> Iterator[tuple[int, Ints]]:
    """The positions of each partition, in order.

    >>> [(home, places.tolist()) for home, places in by_home(np.array([3, 1, 3]))]
    [(1, [1]), (3, [0, 2])]
    """
    order = np.argsort(homes, kind="stable")
    found = homes[order]
    starts = np.flatnonzero(found[1:] != found[:-1]) + 1
    if len(order):
        for places in np.split(order, starts):
            yield int(homes[places[0]]), places


def rows_of(votes: ManyVotes, number_tasks: Numbers, number_workers: Numbers) -> Rows:
    """All votes as columns."""
    return Rows(
        number_tasks(votes.tasks),
        number_workers(votes.workers),
        votes.answers.astype(np.int64),
        votes.offsets,
        votes.timestamps,
        votes.by_vote(votes.sources),
    )
