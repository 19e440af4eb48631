"""Whether a project is settled, from what its instances say in the estimates topic."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

QUIET_MS = 1000  # what was written so shortly before may not have been read yet


class SaidRest(NamedTuple):
    """What an instance said last: when, by Kafka's clock, and how many tasks are due."""

    at: int
    is_at_rest: bool
    due: int


class Settledness(NamedTuple):
    """Whether all is at rest: None if that is not known; and why, for a person."""

    is_settled: bool | None
    why: str
    due: int | None = None


def settledness(
    owners: Iterable[frozenset[int]],
    said: Mapping[int, SaidRest],
    moved_at: int,
    lag: int,
) -> Settledness:
    """Whether a project is settled.

    `owners` has the partitions of each instance, `said` what was said last in each partition (an
    instance speaks in its first), `moved_at` when the last vote or estimate was written, and `lag`
    what was not read yet.

    >>> two = [frozenset({0, 1}), frozenset({2})]
    >>> said = {0: SaidRest(9000, True, 0), 2: SaidRest(8000, True, 0)}
    >>> settledness(two, said, moved_at=5000, lag=0).is_settled
    True
    >>> settledness(two, said, moved_at=7500, lag=0)
    Settledness(is_settled=False, why='labels or estimates have just come in', due=0)
    >>> settledness(two, {0: said[0]}, moved_at=5000, lag=0).is_settled is None
    True
    """
    groups = [partitions for partitions in owners if partitions]
    if not groups:
        return Settledness(None, "no instance is running")
    spoken = [said.get(min(partitions)) for partitions in groups]
    heard = [rest for rest in spoken if rest is not None]
    if len(heard) < len(groups):
        return Settledness(None, "not all instances have told yet")
    due = sum(rest.due for rest in heard)
    if lag:
        return Settledness(False, f"{lag:,} records are to be read", due)
    if not all(rest.is_at_rest for rest in heard):
        return Settledness(False, f"{due:,} tasks are to be weighed anew", due)
    if any(rest.at < moved_at + QUIET_MS for rest in heard):
        return Settledness(False, "labels or estimates have just come in", due)
    return Settledness(True, "nothing moves any more", due)
