"""Reads the whole posteriors topic into the task view: every instance knows every task."""

from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from mode import Service

from pipeline.records.bad import BadRecord
from pipeline.records.posteriors import parse_posterior
from pipeline.settings import Settings
from pipeline.stages.task_view import TaskView
from pipeline.topics import Topics

RECORDS_AT_ONCE = 2000  # so that reading a long topic leaves time for the agents


class Follower(Service):
    """Follows the posteriors of all partitions; started once it has read what was there.

    A partition that this instance owns is not parsed again: `written` says up to which offset
    the task agent has put its own posteriors into the view.
    """

    def __init__(
        self, settings: Settings, view: TaskView, written: Callable[[int], int], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.view = view
        self.written = written
        topic = Topics(settings).posteriors.name
        self.partitions = [TopicPartition(topic, p) for p in range(settings.partitions)]
        self.positions = [0] * settings.partitions
        self.caught_up = False

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

    def lag(self) -> int:
        """How many posteriors of all partitions are not yet in the view."""
        behind = 0
        for tp in self.partitions:
            end = self.consumer.highwater(tp) or 0
            behind += max(0, end - self.positions[tp.partition])
        return behind

    async def _read(self) -> None:
        fetched = await self.consumer.getmany(timeout_ms=1000, max_records=RECORDS_AT_ONCE)
        for tp, records in fetched.items():
            self._learn(tp.partition, records)
            self.positions[tp.partition] = records[-1].offset + 1

    def _learn(self, partition: int, records: list[ConsumerRecord]) -> None:
        written = self.written(partition)
        learn = self.view.learn
        for record in records:
            if record.offset <= written:
                continue
            try:
                posterior = parse_posterior(record.value)
            except BadRecord:
                continue  # written by a stranger
            learn(posterior["task"], posterior["log_odds"], posterior["sources"], record.offset)
