"""Whether a project is settled, by what its instances report in the estimates topic."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

QUIET_MS = 1000  # a report ignores what was published shorter than this before it


class RestReport(NamedTuple):
    """The last report of an instance: when, by Kafka's clock, and how many tasks are due."""

    at: int
    is_at_rest: bool
    due: int


class Settledness(NamedTuple):
    """Whether a project is settled (None: not known), and why, in words."""

    is_settled: bool | None
    why: str
    due: int | None = None


def settledness(
    owners: Iterable[frozenset[int]],
    reports: Mapping[int, RestReport],
    moved_at: int,
    lag: int,
) -> Settledness:
    """Whether a project is settled.

    `owners` has the partitions of each instance, `reports` the last report in each partition (an
    instance publishes to its first), `moved_at` when the last vote or estimate was published, and
    `lag` how many records were not read yet.

    >>> two = [frozenset({0, 1}), frozenset({2})]
    >>> reports = {0: RestReport(9000, True, 0), 2: RestReport(8000, True, 0)}
    >>> settledness(two, reports, moved_at=5000, lag=0).is_settled
    True
    >>> settledness(two, reports, moved_at=7500, lag=0)
    Settledness(is_settled=False, why='labels or estimates have just arrived', due=0)
    >>> settledness(two, {0: reports[0]}, moved_at=5000, lag=0).is_settled is None
    True
    """
    groups = [partitions for partitions in owners if partitions]
    if not groups:
        return Settledness(None, "no instance is running")
    last = [reports.get(min(partitions)) for partitions in groups]
    known = [report for report in last if report is not None]
    if len(known) < len(groups):
        return Settledness(None, "not all instances have reported yet")
    due = sum(report.due for report in known)
    if lag:
        return Settledness(False, f"{lag:,} records are still to be read", due)
    if not all(report.is_at_rest for report in known):
        return Settledness(False, f"{due:,} tasks are due to be recomputed", due)
    if any(report.at < moved_at + QUIET_MS for report in known):
        return Settledness(False, "labels or estimates have just arrived", due)
    return Settledness(True, "no probability moves any more", due)
