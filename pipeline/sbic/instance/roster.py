"""What the owner of a project says of workers: who is blocked whatever the rule says, and names.

The roster topic is an input that is compacted by worker, so that it is also what the next owner of
a partition reads: an instance reads its partitions whole before it answers the first request, and
follows them from there. A record counts in the partition of its worker only; in another one it is
forwarded, and counts when it arrives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sbic.wire.roster import NOTHING_SAID, Entry


@dataclass
class RosterPartition:
    """The entries of a partition, by worker, up to an offset."""

    entries: dict[str, Entry] = field(default_factory=dict)
    upto: int = 0

    def apply(self, offset: int, worker: str, entry: Entry) -> bool:
        """Apply a record; return whether it is new here."""
        if offset < self.upto:
            return False
        self.upto = offset + 1
        self.entries[worker] = entry  # also NOTHING_SAID: their record has to be published again
        return True


class Roster:
    """The entries of the workers of this instance.

    >>> roster = Roster()
    >>> roster.open(3)
    >>> roster.apply(3, 7, "ann", Entry(blocked=True)), roster.apply(4, 7, "bob", Entry())
    (True, False)
    >>> roster.of(3, "ann").blocked, roster.of(3, "bob").blocked
    (True, None)
    """

    def __init__(self) -> None:
        self.partitions: dict[int, RosterPartition] = {}

    def open(self, partition: int) -> None:
        """Begin a partition without entries."""
        self.partitions[partition] = RosterPartition()

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.partitions.pop(partition, None)

    def restore(self, read: Mapping[int, RosterPartition]) -> None:
        """Replace partitions by what was read of them, all at once."""
        self.partitions.update(read)

    def apply(self, partition: int, offset: int, worker: str, entry: Entry) -> bool:
        """Apply a record; return whether it is new here. In a partition of others it is not."""
        found = self.partitions.get(partition)
        return found is not None and found.apply(offset, worker, entry)

    def of(self, partition: int, worker: str) -> Entry:
        """What is said of a worker of this partition."""
        found = self.partitions.get(partition)
        return NOTHING_SAID if found is None else found.entries.get(worker, NOTHING_SAID)
