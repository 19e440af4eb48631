"""Notices when the project changes after this instance was started."""

import asyncio
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import Service

from pipeline.batched.stop import NOT_ALLOWED
from pipeline.kafka.errors import ClusterError
from pipeline.project.errors import ReplacedTopics
from pipeline.project.log import log_consumer, read_on, read_project
from pipeline.project.opening import check_topic_ids
from pipeline.project.revision import Revision
from pipeline.settings import Settings
from pipeline.topics import Topics

REVISION_SECONDS = 1.0
TOPICS_SECONDS = 3.0
MISSES = 3  # in a row: a broker that has just restarted may not know its topics yet


class ProjectWatch(Service):
    """Follows the project topic and the ids of all topics.

    `changed` is set when there is a new revision, or when somebody has deleted or replaced topics
    without one. Then the instance has to stop; if `why_end` is None, it restarts.
    """

    def __init__(self, settings: Settings, revision: Revision, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.revision = revision
        self.changed = asyncio.Event()
        self._place = TopicPartition(Topics(settings).project.name, 0)
        self._last: Revision | None = None  # that this consumer has read
        self._replaced: ReplacedTopics | None = None

    async def on_start(self) -> None:
        """Read the project topic once more, before this instance joins the group."""
        self._consumer = log_consumer(self.settings)
        await self._consumer.start()
        await self._look()

    async def on_stop(self) -> None:
        """Stop the client."""
        await self._consumer.stop()

    @property
    def why_end(self) -> str | None:
        """Why an instance cannot restart; None if it can."""
        if self._last is not None and self._last.state == "deleting":
            return f"the project {self.settings.prefix} is deleted"
        return None if self._replaced is None else str(self._replaced)

    async def _look(self) -> None:
        self._last = await read_on(self._consumer, self._place, self._last)
        if self._last is not None and self._last.number > self.revision.number:
            self.changed.set()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self.sleep(REVISION_SECONDS)
            try:
                await self._look()
            except NOT_ALLOWED:
                raise  # restarts the instance, which waits until it is authorized
            except KafkaError:
                continue  # not available: `BrokerWatch` logs it

    @Service.task
    async def _check_topics(self) -> None:
        misses = 0
        while not self.should_stop:
            await self.sleep(TOPICS_SECONDS)
            try:
                await check_topic_ids(self.settings, self.revision)
                misses = 0
            except ReplacedTopics as replaced:
                misses += 1
                if (misses == MISSES or replaced.other) and not await self._is_intended():
                    self._replaced = replaced
                    self.changed.set()
            except ClusterError:
                continue

    async def _is_intended(self) -> bool:
        """Whether a command of sbic recreates the topics; `_follow` sees its revision too."""
        try:
            last = await read_project(self.settings)
        except ClusterError:
            return False
        return last is not None and last.number > self.revision.number
