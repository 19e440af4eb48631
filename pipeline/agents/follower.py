"""Reads the whole posteriors topic into the task view: every instance knows every task."""

from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import parse_posterior
from pipeline.settings import Settings
from pipeline.stages.sources import is_older
from pipeline.stages.task_view import TaskView
from pipeline.topics import Topics

RECORDS_AT_ONCE = 2000  # so that reading a long topic leaves time for the agents


class Follower(Service):
    """Follows the posteriors of all partitions but its instance's own.

    Those the task agent puts into the view itself, as soon as they are published. Started, it has
    read all that was there.
    """

    def __init__(self, settings: Settings, view: TaskView, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.view = view
        topic = Topics(settings).posteriors.name
        self.partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        self.followed = set(self.partitions)
        self.positions = [0] * settings.partitions
        self.caught_up = False
        self.learned: Callable[[], None] = lambda: None  # called after each read

    async def on_start(self) -> None:
        """Read everything up to the end that the topic has now."""
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers,
            client_id=f"{self.settings.prefix}-task-view",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        ends = await self.consumer.end_offsets(self.partitions)
        for tp in self.partitions:
            while await self.consumer.position(tp) < ends[tp]:
                await self._read()
        self.caught_up = True

    async def on_stop(self) -> None:
        """Leave."""
        await self.consumer.stop()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self._read()

    def leave(self, partition: int) -> None:
        """This instance owns the partition now: its posteriors need not be read."""
        tp = self.partitions[partition]
        self.consumer.pause(tp)
        self.followed.discard(tp)

    def follow(self, partition: int, after: int) -> None:
        """The partition went to another instance: read what it publishes after this offset."""
        tp = self.partitions[partition]
        self.consumer.seek(tp, after + 1)
        self.consumer.resume(tp)
        self.positions[partition] = after + 1
        self.followed.add(tp)

    def lag(self) -> int:
        """How many posteriors of other instances are not yet in the view."""
        ends = ((tp.partition, self.consumer.highwater(tp) or 0) for tp in self.followed)
        return sum(max(0, end - self.positions[partition]) for partition, end in ends)

    async def _read(self) -> None:
        fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
        for tp, records in fetched.items():
            if tp in self.followed:  # fetched before the partition came to this instance
                self._learn(records)
                self.positions[tp.partition] = records[-1].offset + 1
        if fetched and self.caught_up:
            self.learned()

    def _learn(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            try:
                posterior = parse_posterior(record.value)
            except BadRecord:
                continue  # written by a stranger
            if not is_older(posterior["sources"], self.view[posterior["task"]].sources):
                self.view.learn(posterior, record.offset)
