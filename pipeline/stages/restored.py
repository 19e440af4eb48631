"""The result of restoring records of a changelog."""

from typing import NamedTuple

from pipeline.records.bad import BadRecord


class Restored(NamedTuple):
    """How many records were processed, and which of them are not sbic records, by index."""

    records: int
    rejected: dict[int, BadRecord]
