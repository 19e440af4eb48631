"""Labels as columns: what the steps work on, and how they come from records of votes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints
from pipeline.records.votes import Votes

NO_COUNTS = np.empty((0, 0))

Numbers = Callable[[Sequence[str]], Ints]
"""What gives names their numbers."""


class Rows(NamedTuple):
    """Labels as columns: numbers of tasks and workers, answers, offsets and timestamps."""

    tasks: Ints
    workers: Ints
    answers: Ints
    offsets: Ints
    timestamps: Ints

    def only(self, which: NDArray[np.bool_] | Ints) -> "Rows":
        """Some of the rows."""
        return Rows(*(column[which] for column in self))


def by_home(homes: NDArray[np.integer[Any]]) -> Iterator[tuple[int, Ints]]:
    """The places of each partition among these, in their order.

    >>> [(home, places.tolist()) for home, places in by_home(np.array([3, 1, 3]))]
    [(1, [1]), (3, [0, 2])]
    """
    order = np.argsort(homes, kind="stable")
    found = homes[order]
    starts = np.flatnonzero(found[1:] != found[:-1]) + 1
    if len(order):
        for places in np.split(order, starts):
            yield int(homes[places[0]]), places


class JoinedVotes:
    """The votes of many records, to be applied at once: the cost of a call is that of many rows."""

    def __init__(self) -> None:
        self.parts: list[Votes] = []
        self.names: tuple[list[str], list[str]] = [], []

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, votes: Votes, which: NDArray[np.bool_]) -> None:
        """Add some of the votes of a record."""
        if not which.any():
            return
        if not which.all():
            votes = _only(votes, which)
        self.parts.append(votes)
        self.names[0].extend(votes.tasks)
        self.names[1].extend(votes.workers)

    def sources(self) -> Ints:
        """The labels partition of each."""
        sources = np.array([part.source for part in self.parts])
        return np.repeat(sources, [len(part.tasks) for part in self.parts])

    def counts(self) -> tuple[NDArray[np.bool_], Floats]:
        """Which of the votes tell what was known of their worker, and that."""
        tells = [part.counts.shape[1] > 0 for part in self.parts]
        told = [part.counts for part in self.parts if part.counts.shape[1]]
        lengths = [len(part.tasks) for part in self.parts]
        return np.repeat(tells, lengths), np.concatenate(told) if told else NO_COUNTS

    def rows(self, number_tasks: Numbers, number_workers: Numbers) -> tuple[Rows, Floats]:
        """All as columns, and the votes of Fast SBIC."""
        parts = self.parts
        rows = Rows(
            number_tasks(self.names[0]),
            number_workers(self.names[1]),
            np.concatenate([part.answers for part in parts]).astype(np.int64),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
        )
        return rows, np.concatenate([part.votes for part in parts])


def _only(votes: Votes, which: NDArray[np.bool_]) -> Votes:
    """Some of the votes."""
    return Votes(
        votes.source,
        list(compress(votes.tasks, which)),
        list(compress(votes.workers, which)),
        votes.answers[which],
        votes.offsets[which],
        votes.timestamps[which],
        votes.votes[which],
        votes.counts[which],
    )
