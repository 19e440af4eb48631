"""Reads the whole posteriors topic into the task view: every instance knows every task."""

from typing import Any

from aiokafka import ConsumerRecord

from pipeline.agents.follower import Follower
from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import parse_posterior
from pipeline.settings import Settings
from pipeline.stages.sources import is_older
from pipeline.stages.task_view import TaskView
from pipeline.topics import Topics


class PosteriorsFollower(Follower):
    """Follows the posteriors of all partitions but its instance's own.

    Those the task agent puts into the view itself, as soon as they are published.
    """

    def __init__(self, settings: Settings, view: TaskView, **kwargs: Any) -> None:
        super().__init__(settings, Topics(settings).posteriors, "task-view", **kwargs)
        self.view = view
        self.followed = set(range(settings.partitions))

    def learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Put posteriors into the view, unless it knows later ones."""
        if partition not in self.followed:  # fetched before the partition came to this instance
            return
        for record in records:
            try:
                posterior = parse_posterior(record.value)
            except BadRecord:
                continue  # written by a stranger
            known = self.view[posterior["task"]]
            if not is_older(posterior, known.sources, known.open):
                self.view.learn(posterior, record.offset)

    def leave(self, partition: int) -> None:
        """This instance owns the partition now: its posteriors need not be read."""
        self.consumer.pause(self.partitions[partition])
        self.followed.discard(partition)

    def follow(self, partition: int, after: int) -> None:
        """The partition went to another instance: read what it publishes after this offset."""
        tp = self.partitions[partition]
        self.consumer.seek(tp, after + 1)
        self.consumer.resume(tp)
        self.positions[partition] = after + 1
        self.followed.add(partition)

    def lag(self) -> int:
        """How many posteriors of other instances are not yet in the view."""
        ends = ((p, self.consumer.highwater(self.partitions[p]) or 0) for p in self.followed)
        return sum(max(0, end - self.positions[partition]) for partition, end in ends)
