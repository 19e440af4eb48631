"""Notices when the project is not any more what this instance was started with."""

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import Service

from pipeline.agents.errors import CannotStart
from pipeline.batched.stop import stop_at_once
from pipeline.kafka.errors import ClusterError
from pipeline.project.errors import ReplacedTopics
from pipeline.project.log import log_consumer, read_on, read_project
from pipeline.project.opening import check_topic_ids
from pipeline.project.revision import Revision
from pipeline.settings import Settings
from pipeline.topics import Topics

REVISION_SECONDS = 1.0
TOPICS_SECONDS = 3.0
MISSES = 3  # in a row: a broker that has just come back may not know its topics yet


class ProjectWatch(Service):
    """Follows the project topic and the ids of all topics.

    A new revision sets `changed`: the instance has to start anew. Topics that somebody has deleted
    or replaced without one end the process, since nothing could be counted any more.
    """

    def __init__(self, settings: Settings, revision: Revision, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.revision = revision
        self.changed = asyncio.Event()
        self._place = TopicPartition(Topics(settings).project.name, 0)
        self._last: Revision | None = None  # of those read by this consumer

    async def on_start(self) -> None:
        """Look once more, before this instance joins the group."""
        self._consumer = log_consumer(self.settings)
        await self._consumer.start()
        await self._look()

    async def on_stop(self) -> None:
        """Leave."""
        await self._consumer.stop()

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deletes the project."""
        return self._last is not None and self._last.state == "deleting"

    async def _look(self) -> None:
        self._last = await read_on(self._consumer, self._place, self._last)
        if self._last is not None and self._last.number > self.revision.number:
            self.changed.set()

    @Service.task
    async def _follow(self) -> None:
        while not self.should_stop:
            await self.sleep(REVISION_SECONDS)
            with suppress(KafkaError):  # it is away: `Connection` tells
                await self._look()

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
                if misses == MISSES or replaced.other:
                    await self._end_unless_meant(replaced)
            except ClusterError:
                continue

    async def _end_unless_meant(self, replaced: ReplacedTopics) -> None:
        """End the process, unless it is sbic that makes the topics again."""
        with suppress(ClusterError):
            last = await read_project(self.settings)
            if last is not None and last.number > self.revision.number:
                return  # which `_follow` sees as well
        stop_at_once(CannotStart(str(replaced)))
