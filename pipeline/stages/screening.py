"""Reads many records of votes at once, and leaves out impossible ones."""

from typing import NamedTuple

import numpy as np

from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.records.columns import MOST, Columns
from pipeline.records.many_votes import ManyVotes, VotesReader
from pipeline.stages.judge import Beyond, Judge
from pipeline.stages.restored import Restored


class Screened(NamedTuple):
    """The possible votes, the index of the record of each part, and the outcome."""

    votes: ManyVotes
    places: Ints
    outcome: Restored

    def has(self, place: int) -> bool:
        """Whether the record at this index was processed and accepted."""
        return place < self.outcome.records and place not in self.outcome.rejected


class Screening:
    """Collects records one by one; `problems` has those of bad records, by index."""

    def __init__(self, judge: Judge) -> None:
        self.problems: dict[int, BadRecord] = {}
        self._judge = judge
        self._reader = VotesReader(len(judge.crowd.classes))
        self._parts: list[tuple[int, int, int]] = []

    def add(self, place: int, home: int, record: Columns, before: int = MOST) -> None:
        """Add votes of labels before an offset, for a partition of tasks or NOBODY."""
        self._reader.add(record)
        self._parts.append((place, home, before))

    def finish(self, records: int, *, sure: bool) -> Screened:
        """Check all votes of so many records.

        Unless `sure` (the known ends of partitions are current), processing stops before the first
        record beyond an end.
        """
        votes = self._reader.read()
        places, homes, before = np.array(self._parts, np.int64).reshape(-1, 3).T.copy()
        for part, bad in self._judge.problems_of(votes, homes, before).items():
            self.problems.setdefault(int(places[part]), bad)
        if not sure:
            beyond = (place for place, bad in self.problems.items() if isinstance(bad, Beyond))
            records = min(beyond, default=records)
        rejected = {place: bad for place, bad in self.problems.items() if place < records}
        good = places < records
        if rejected:
            good &= ~np.isin(places, list(rejected))
        return Screened(votes.only(good), places[good], Restored(records, rejected))
