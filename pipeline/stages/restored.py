"""What came of restoring records of a changelog."""

from typing import NamedTuple

from pipeline.records.bad import BadRecord


class Restored(NamedTuple):
    """How many records were dealt with, and which of them are not ours, by their place."""

    records: int
    rejected: dict[int, BadRecord]
