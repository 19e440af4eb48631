"""Follows the progress of instances in counting the labels of a project."""

import asyncio
from time import monotonic
from typing import NamedTuple

from pipeline.kafka.groups import committed_offsets, group_members
from pipeline.kafka.sizes import Extents, extents
from pipeline.progress import progress
from pipeline.settings import Settings
from pipeline.topics import Topics

LOOK_SECONDS = 0.5


class Count(NamedTuple):
    """The number of labels, and how many of them are counted in posteriors."""

    labels: int
    counted: int

    @property
    def is_complete(self) -> bool:
        """Whether all labels are counted."""
        return self.counted == self.labels


async def follow_counting(settings: Settings, patience: float) -> Count:
    """Show a bar until all labels are counted; give up after `patience` without an instance."""
    seen = monotonic()
    count = await count_of(settings)
    with progress("Counting", total=count.labels) as advance:
        shown = 0
        while not count.is_complete:
            if await group_members(settings):
                seen = monotonic()
            elif monotonic() - seen > patience:
                break
            await asyncio.sleep(LOOK_SECONDS)
            count = await count_of(settings)
            advance(count.counted - shown)
            shown = count.counted
    return count


async def count_of(settings: Settings) -> Count:
    """The labels processed so far; at most all but one while votes are in flight."""
    labels, votes = Topics(settings).labels.name, Topics(settings).votes.name
    found = await extents(settings, [labels, votes])
    all_labels, processed = await _offsets(settings, labels, found)
    all_votes, counted = await _offsets(settings, votes, found)
    in_flight = counted != all_votes
    return Count(all_labels, min(processed, all_labels - 1) if in_flight else processed)


async def _offsets(settings: Settings, topic: str, found: Extents) -> tuple[int, int]:
    """How many records a topic has, and how many of them the group has committed."""
    committed = await committed_offsets(settings, settings.prefix, topic)
    of_topic = {tp.partition: extent for tp, extent in found.items() if tp.topic == topic}
    total = sum(end - begin for begin, end in of_topic.values())
    done = sum(
        max(0, min(committed.get(partition, 0), end) - begin)
        for partition, (begin, end) in of_topic.items()
    )
    return total, done
