"""Follows how instances count the labels of a project."""

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
    """How many labels there are, and how many of them have reached their tasks."""

    labels: int
    counted: int

    @property
    def is_complete(self) -> bool:
        """Whether all labels are counted."""
        return self.counted == self.labels


async def follow_counting(settings: Settings, patience: float) -> Count:
    """Show a bar until all labels are counted; gives up after so long without an instance."""
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
    """How many labels are taken, all but one if votes of theirs are still on their way."""
    labels, votes = Topics(settings).labels.name, Topics(settings).votes.name
    found = await extents(settings, [labels, votes])
    total, taken = await _done(settings, labels, found)
    sent, received = await _done(settings, votes, found)
    return Count(total, taken if sent == received else min(taken, total - 1))


async def _done(settings: Settings, topic: str, found: Extents) -> tuple[int, int]:
    committed = await committed_offsets(settings, settings.prefix, topic)
    of_topic = {tp.partition: extent for tp, extent in found.items() if tp.topic == topic}
    total = sum(end - begin for begin, end in of_topic.values())
    done = sum(
        max(0, min(committed.get(partition, 0), end) - begin)
        for partition, (begin, end) in of_topic.items()
    )
    return total, done
