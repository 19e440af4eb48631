"""What the owner of a partition of tasks knows about its votes."""

import numpy as np
from numpy.typing import NDArray

from pipeline.records.many_votes import ManyVotes
from pipeline.stages.offsets import CountedOffsets
from pipeline.stages.recent_names import RecentNames

RECENT_MS = 5_000  # a crash can have prevented the publication of posteriors this recent


class TaskPartition:
    """Which votes of a partition have been counted, by labels partition and offset.

    `epoch` increases with every new owner.
    """

    def __init__(self, partitions: int) -> None:
        self.counted = [CountedOffsets() for _ in range(partitions)]
        self.epoch = 0
        # while restoring: offset and epoch of the last fact of each task
        self.described: dict[int, tuple[int, int]] = {}
        self.is_restored = False
        self.restored = RecentNames(RECENT_MS)  # tasks

    def count(self, votes: ManyVotes) -> NDArray[np.bool_]:
        """Count votes; return which of them are new."""
        new = np.zeros(len(votes.offsets), np.bool_)
        sources = votes.by_vote(votes.sources)
        for source in set(votes.sources.tolist()):
            which = sources == source
            new[which] = self.counted[source].add(votes.offsets[which])
        return new
