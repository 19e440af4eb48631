"""A project as it is now: connected, read in the background, and left when its settings change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.gateway.follower import Follower
from pipeline.gateway.view.project import ProjectView
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import ClusterError
from pipeline.project.given import Given
from pipeline.project.log import log_consumer, read_on
from pipeline.project.opening import settings_in_project
from pipeline.project.revision import Revision
from pipeline.settings import Settings
from pipeline.tools.reading import reading
from pipeline.tools.standing import Standing, compile_engine
from pipeline.tools.status import empty_summary, reading_flow
from pipeline.tools.status_flow import FlowReader
from pipeline.topics import Topics

LOOK_SECONDS = 1.0


class Session:
    """What is known of a project with these settings, kept up to date while `run` runs."""

    def __init__(
        self,
        settings: Settings,
        view: ProjectView,
        followers: dict[str, Follower],
        flow: FlowReader,
        log: AIOKafkaConsumer,
    ) -> None:
        self.settings = settings
        self.view = view
        self.trouble: str | None = None
        self._followers = followers
        self._flow = flow
        self._log = log
        self._log_place = TopicPartition(Topics(settings).project.name, 0)
        self._looked = False

    @property
    def why_not_readable(self) -> str | None:
        """What is not read yet; what was read once can be asked for while Kafka is away."""
        for name in ("posteriors", "workers", "dead letters"):
            if not self._followers[name].caught_up.is_set():
                return str(self._followers[name])
        return None if self._looked else "asking Kafka for the group"

    async def run(self) -> None:
        """Read for ever, or until the project has other settings."""
        followers = [
            asyncio.create_task(follower.run())
            for name, follower in self._followers.items()
            if name != "labels"
        ]
        tasks = [
            *followers,
            asyncio.create_task(self._follow_labels()),
            asyncio.create_task(self._look_for_ever()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_labels(self) -> None:
        """Labels come last: nothing but the answers of a task is made of them."""
        await self._followers["posteriors"].caught_up.wait()
        await asyncio.to_thread(compile_engine)
        labels = self._followers["labels"]
        following = asyncio.create_task(labels.run())
        try:
            await labels.caught_up.wait()
            self.view.has_labels = True
            await following
        finally:
            following.cancel()

    async def _look_for_ever(self) -> None:
        """Ask Kafka for the group and the flow; ends when the project has changed."""
        revision = await read_on(self._log, self._log_place, None)
        last: Revision | None = revision
        while last == revision:
            try:
                await self._flow.tell(self.view.summary, await self._flow.group())
                last = await read_on(self._log, self._log_place, last)
                self._looked, self.trouble = True, None
            except ClusterError as error:
                self.trouble = str(error)
            except KafkaError as error:
                self.trouble = f"Kafka at {', '.join(self.settings.bootstrap_servers)}: {error}"
            self.view.refresh()
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def session(given: Given) -> AsyncIterator[Session]:
    """A session with the project as it is now."""
    settings = await settings_in_project(given)
    topics = Topics(settings)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        asking = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers)
        await enter(connected(asking, settings))
        log = await enter(connected(log_consumer(settings), settings))
        flow = await enter(reading_flow(settings, asking))
        standing = Standing(settings.crowd_classes, len(flow.votes.partitions), settings.repeats)
        view = ProjectView(empty_summary(settings), standing)
        takes = {
            "posteriors": (topics.posteriors, view.tasks.take),
            "workers": (topics.workers, view.workers.take),
            "dead letters": (topics.dead_letters, view.letters.take),
            "labels": (topics.labels, standing.take),
        }
        followers = {}
        for name, (topic, take) in takes.items():
            reader = await enter(reading(settings, topic.name, from_start=True))
            followers[name] = Follower(name, reader, take)
        yield Session(settings, view, followers, flow, log)
