"""The progress of reading a topic."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Records read so far, all records, and the time that the rest will take, if known.

    >>> str(Progress(read=493_411, total=1_203_441, seconds_to_go=11.9))
    '41 % of 1,203,441 records, about 12 s to go'
    >>> str(Progress(read=0, total=1_203_441, seconds_to_go=None))
    '0 % of 1,203,441 records'
    """

    read: int
    total: int
    seconds_to_go: float | None

    def __str__(self) -> str:
        percent = 100 * self.read // self.total if self.total else 100
        shown = f"{percent} % of {self.total:,} records"
        to_go = self.seconds_to_go
        return shown if to_go is None else f"{shown}, about {to_go:.0f} s to go"


NOTHING_TO_READ = Progress(0, 0, None)


def at_this_rate(read: int, total: int, seconds: float) -> Progress:
    """Return the progress after so many seconds, if the rest is read at the same rate.

    >>> at_this_rate(read=10, total=40, seconds=5).seconds_to_go
    15.0
    """
    return Progress(read, total, seconds * (total - read) / read if read else None)
