"""Refuses to start if the answers topic lacks labels that were taken.

Answers are missing when another version of sbic has written them in its own format, or when
somebody has deleted the internal topics. Without them, later labels would be counted as if there
had been no earlier ones.
"""

from pipeline.agents.errors import CannotStart
from pipeline.agents.retry import retry
from pipeline.kafka.errors import ClusterError
from pipeline.kafka.groups import committed_offsets
from pipeline.settings import Settings
from pipeline.stages.worker_stage import WorkerStage
from pipeline.topics import Topics


async def check_continuity(settings: Settings, stage: WorkerStage, partitions: set[int]) -> None:
    """Compare the restored answers of new partitions with the committed offsets.

    Raises `CannotStart` if committed labels have no answers.
    """
    new = {partition for partition in partitions if not stage.partitions[partition].is_ready}
    if not new:
        return
    topic = Topics(settings).labels.name
    committed = await retry(
        lambda: committed_offsets(settings, settings.prefix, topic), on=ClusterError
    )
    for partition in sorted(new):
        taken, before = stage.partitions[partition].taken, committed.get(partition, 0)
        if before > taken + 1:
            raise CannotStart(
                f"labels of {topic} up to offset {before - 1:,} of partition {partition} were "
                f"taken, but {Topics(settings).answers.name} has them only up to {taken:,}: it "
                "was written by another version of sbic, or deleted. No label is lost: count all "
                f"of them again with: sbic project recount --prefix {settings.prefix}"
            )
