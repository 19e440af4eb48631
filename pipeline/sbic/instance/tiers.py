"""Who may be asked about a task: what the roster says of all workers, and the tier of each task.

With `SBIC_POLICY=escalate` a task is offered to one tier of workers at a time, the lowest that is
not used up. A tier is used up for a task if

- it has given `SBIC_TIER_LABELS` labels on it; or
- nobody is left: every one of its members who is not blocked has answered or skipped the task; or
- more labels like its own could not make the task confident (see `Engine.outlook`), and at least
  half of the labels on the task are the tier's.

The members of a tier are the workers of whom the roster says that they are. Others may be of tier 1
without being its members: if the roster names nobody of tier 1, it is an open crowd, in which there
is always somebody left. Any other tier that nobody has is passed over. So the tier of a task is a
function of its labels and skips, of the roster and of the settings, whatever their order.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.copies import MOST_KIN, most_kin
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints
from sbic.wire.workers import TIERS, RosterEntry

ALL_TIERS = TIERS[-1] + 1  # a column for each, and one for none
UNLIMITED = 1 << 30  # labels


class Listed(NamedTuple):
    """What the model and the policy have to know of a worker.

    `tier` is 1 also for those who are no `member` of it. `units` are of money, for each label.
    """

    tier: int = 1
    is_member: bool = False
    units: int = 0
    group: str = ""
    is_barred: bool = False

    @classmethod
    def of(cls, entry: RosterEntry, is_barred: bool) -> "Listed":
        """Return what follows from the word of the owner, or of the rule where they say nothing.

        >>> Listed.of(RosterEntry(tier=2, price=0.5), is_barred=True)
        Listed(tier=2, is_member=True, units=500000, group='', is_barred=True)
        """
        said = is_barred if entry.blocked is None else entry.blocked
        member = entry.tier is not None
        return cls(entry.tier or 1, member, entry.units, entry.group or "", said)


UNKNOWN = Listed()


class Standings:
    """The standings of all workers of whom the roster says anything, by partition and name.

    `unsaid` has the workers of each partition whose standing the other instances do not know yet.

    >>> standings = Standings(partitions=1)
    >>> standings.say(0, {"ann": Listed(tier=2, is_member=True)})
    {'ann': Listed(tier=2, is_member=True, units=0, group='', is_barred=False)}
    >>> standings.members.tolist()
    [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    """

    def __init__(self, partitions: int) -> None:
        self.by_worker: list[dict[str, Listed]] = [{} for _ in range(partitions)]
        self.unsaid: dict[int, dict[str, None]] = {}
        self.members = np.zeros(ALL_TIERS, np.int64)  # not barred, by tier
        self.groups: dict[str, dict[str, int]] = {}  # the members, with their partitions
        self._numbers: dict[str, int] = {}  # of groups
        self._sizes = np.zeros(MOST_KIN + 2, np.int64)  # how many groups have each

    def of(self, partition: int, worker: str) -> Listed:
        """Return the standing of a worker of this partition."""
        return self.by_worker[partition].get(worker, UNKNOWN)

    def say(
        self, partition: int, said: Mapping[str, Listed], *, replaces: bool = False
    ) -> dict[str, Listed]:
        """Set the standings of workers, or with `replaces` of all; return those that changed."""
        known = self.by_worker[partition]
        new = {**dict.fromkeys(known, UNKNOWN), **said} if replaces else said
        changed = {name: now for name, now in new.items() if known.get(name, UNKNOWN) != now}
        for name, now in changed.items():
            before = known.pop(name, UNKNOWN)
            self.members[before.tier] -= before.is_member and not before.is_barred
            self.members[now.tier] += now.is_member and not now.is_barred
            if now != UNKNOWN:
                known[name] = now
            if before.group != now.group:
                self._move(name, partition, before.group, now.group)
        return changed

    def _move(self, worker: str, partition: int, before: str, now: str) -> None:
        for group in filter(None, (before, now)):
            members = self.groups.setdefault(group, {})
            self._sizes[min(len(members), MOST_KIN + 1)] -= 1
            if group == now:
                members[worker] = partition
            else:
                del members[worker]
            self._sizes[min(len(members), MOST_KIN + 1)] += 1
            if not members:
                del self.groups[group]

    @property
    def most_kin(self) -> int:
        """The largest size of groups that are acted on.

        >>> standings = Standings(1)
        >>> both = {name: Listed(group="f") for name in ("ann", "bob")}
        >>> _ = standings.say(0, both)
        >>> standings.most_kin >= 2, standings.kin_of(0, "ann"), standings.kin_of(0, "eve")
        (True, 0, -1)
        """
        return most_kin(self._sizes[:-1])

    def kin_of(self, partition: int, worker: str) -> int:
        """Return the number of the group that a worker shares votes with, or -1."""
        group = self.of(partition, worker).group
        if not group or not 1 < len(self.groups[group]) <= self.most_kin:
            return -1
        return self._numbers.setdefault(group, len(self._numbers))

    def take_unsaid(self, partition: int) -> dict[str, Listed]:
        """Remove and return what the other instances do not know yet of a partition."""
        names = self.unsaid.pop(partition, {})
        return {name: self.of(partition, name) for name in names}


class Escalation(NamedTuple):
    """The tier that each task is offered to, or 0 if the last is used up; and its labels left."""

    tiers: NDArray[np.int8]
    left: NDArray[np.int32]


class TierCounts(NamedTuple):
    """By task and tier: the labels, and the members who are not barred and have no more to say."""

    labels: Ints
    silent: Ints


def count_tiers(
    engine: Engine,
    tasks: Ints,
    tiers: NDArray[np.int8],
    members: NDArray[np.int8],
    skipped: Iterable[tuple[int, int]],
) -> TierCounts:
    """Count over own tasks, by the tier of each worker and the tier that each is a member of.

    `skipped` has the place of a task among `tasks`, and a worker who has skipped it.
    """
    labels = engine.labels_of(tasks)
    places = np.repeat(np.arange(len(tasks)), engine.label_counts(tasks))
    shape = len(tasks), ALL_TIERS
    size = len(tasks) * ALL_TIERS
    given = np.bincount(places * ALL_TIERS + tiers[labels.workers], minlength=size)
    silent = np.bincount(places * ALL_TIERS + members[labels.workers], minlength=size)
    found = TierCounts(given.reshape(shape), silent.reshape(shape))
    for place, worker in skipped:
        if not engine.has_answered(worker, int(tasks[place])):
            found.silent[place, members[worker]] += 1
    return found


def escalation(
    counts: TierCounts, members: Ints, most: int | None, is_hopeless: NDArray[np.bool_]
) -> Escalation:
    """Return the lowest tier that is not used up, for each task.

    >>> labels = np.zeros((3, ALL_TIERS), np.int64)
    >>> labels[:, 1] = 0, 2, 3
    >>> members = np.zeros(ALL_TIERS, np.int64)
    >>> members[[1, 4]] = 3, 1
    >>> nobody = np.zeros(3, bool)
    >>> escalation(TierCounts(labels, labels), members, None, nobody).tiers.tolist()
    [1, 1, 4]
    >>> escalation(TierCounts(labels, labels), members, 2, nobody)
    Escalation(tiers=array([1, 4, 4], dtype=int8), left=array([2, 2, 2], dtype=int32))
    """
    limit = UNLIMITED if most is None else most
    left = limit - counts.labels
    is_left = (counts.silent < members) & (left > 0)
    if not members[1]:
        is_left[:, 1] = left[:, 1] > 0  # an open crowd
    is_mostly = 2 * counts.labels >= counts.labels.sum(axis=1, keepdims=True)
    is_left &= ~(is_hopeless[:, None] & is_mostly & (counts.labels > 0))
    is_left[:, 0] = False
    tiers = is_left.argmax(axis=1)
    rows = np.arange(len(tiers))
    left = np.where(tiers > 0, left[rows, tiers], 0)
    return Escalation(tiers.astype(np.int8), left.astype(np.int32))


def last_tier(members: Ints) -> int:
    """Return the highest tier that anybody has.

    >>> last_tier(np.zeros(ALL_TIERS, np.int64))
    1
    """
    return int(max(np.flatnonzero(members), default=1))
