"""Checks that tasks exist, so that a mistyped id does not create one."""

from collections.abc import Iterable

from pipeline.kafka.reading import reading
from pipeline.partitioner import partition_of
from pipeline.progress import progress
from pipeline.settings import Settings
from pipeline.topics import Topics


async def unknown_tasks(settings: Settings, tasks: Iterable[str]) -> list[str]:
    """Those of the tasks that have no posterior and were never registered."""
    unknown = {task.encode(): task for task in tasks}
    topics = Topics(settings)
    for topic in (topics.posteriors, topics.tasks):
        if not unknown:
            break
        async with reading(settings, topic.name, from_start=True) as reader:
            count = len(reader.partitions)
            reader.read_only(partition_of(key, count) for key in unknown)
            with progress("Looking for the tasks", total=sum(reader.ends.values())) as advance:
                async for records in reader.to_the_end():
                    for record in records:
                        unknown.pop(record.key, None)
                    advance(len(records))
                    if not unknown:
                        break
    return list(unknown.values())
