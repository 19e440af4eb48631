"""A session with a project: connected and read in the background until its settings change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.gateway.annotations import KnownAnnotations
from pipeline.gateway.desk import Desk
from pipeline.gateway.follower import Follower
from pipeline.gateway.lane import Row
from pipeline.gateway.outbox import Outbox
from pipeline.gateway.view.project import ProjectView
from pipeline.kafka.access.granted import check_role
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import ClusterError
from pipeline.kafka.options import client_options
from pipeline.kafka.reading import reading
from pipeline.project.given import Given
from pipeline.project.log import log_consumer, read_on, read_project
from pipeline.project.opening import settings_at
from pipeline.project.revision import Revision
from pipeline.records.labels import label_parser
from pipeline.records.tasks import task_parser
from pipeline.settings import Settings
from pipeline.status.flow import FlowReader
from pipeline.status.reading import empty_summary, reading_flow
from pipeline.topics import Topics
from pipeline.transfer.standing import Standing, compile_engine

LOOK_SECONDS = 1.0


class Session:
    """The state of a project as of a revision, kept up to date while `run` runs."""

    def __init__(
        self,
        settings: Settings,
        revision: Revision | None,
        view: ProjectView,
        followers: dict[str, Follower],
        flow: FlowReader,
        log: AIOKafkaConsumer,
        outbox: Outbox,
        desk: Desk,
        annotations: KnownAnnotations,
    ) -> None:
        self.settings = settings
        self.revision = revision
        self.topics = Topics(settings)
        self.view = view
        self.outbox = outbox
        self.desk = desk
        self.annotations = annotations
        self.trouble: str | None = None
        self._followers = followers
        self._flow = flow
        self._log = log
        self._log_place = TopicPartition(self.topics.project.name, 0)
        self._looked = False
        self._parse_label = label_parser(settings.crowd_classes)
        self._parse_task = task_parser(settings.crowd_classes)

    def label_row(self, value: bytes) -> Row:
        """The key and value of a label; raises `BadRecord`."""
        _, worker, _ = self._parse_label(value)
        return Row(worker.encode(), value)

    def task_row(self, value: bytes) -> Row:
        """The key and value of a task's description; raises `BadRecord`."""
        return Row(self._parse_task(None, value)["task"].encode(), value)

    @property
    def why_not_readable(self) -> str | None:
        """What is still being read, or None; what was read stays available without Kafka."""
        for name in ("posteriors", "workers", "dead letters"):
            if not self._followers[name].caught_up.is_set():
                return str(self._followers[name])
        return None if self._looked else "asking Kafka for the group"

    async def run(self) -> None:
        """Read until the project's settings change."""
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._watch_group_and_settings(),
                *(each.run() for name, each in self._followers.items() if name != "labels"),
                self._follow_labels(),
                self.outbox.run(),
                self.desk.run(),
            )
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
        """Read labels last: only the answers of a task depend on them."""
        await self._followers["posteriors"].caught_up.wait()
        await asyncio.to_thread(compile_engine)
        labels = self._followers["labels"]
        following = asyncio.create_task(labels.run())
        try:
            await labels.caught_up.wait()
            self.view.labels_read()
            await following
        finally:
            following.cancel()

    async def _watch_group_and_settings(self) -> None:
        """Poll the group and the activity; returns when the project's settings have changed."""
        last = await read_on(self._log, self._log_place, None)
        while last == self.revision:
            try:
                group = await self._flow.group()
                self.view.summary.update(await self._flow.activity(group))
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
    """A connected session with the project as it is now."""
    revision = await read_project(given.place)
    settings = settings_at(revision, given)
    await check_role(settings, "gateway")
    topics = Topics(settings)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        asking = AIOKafkaConsumer(**client_options(settings))
        await enter(connected(asking, settings))
        log = await enter(connected(log_consumer(settings), settings))
        flow = await enter(reading_flow(settings, asking))
        standing = Standing(
            settings.crowd_classes, len(flow.posteriors.partitions), settings.repeats
        )
        view = ProjectView(empty_summary(settings), standing)
        takes = {
            "posteriors": (topics.posteriors, view.tasks.take),
            "workers": (topics.workers, view.workers.take),
            "dead letters": (topics.dead_letters, view.summary.letters.take),
            "labels": (topics.labels, standing.take),
        }
        followers = {}
        for name, (topic, take) in takes.items():
            reader = await enter(reading(settings, topic.name, from_start=True))
            followers[name] = Follower(name, reader, take)
        outbox = Outbox(settings, len(flow.posteriors.partitions))
        assignments = await enter(reading(settings, topics.assignments.name, from_start=False))
        desk = Desk(topics.requests.name, outbox, assignments)
        annotations = KnownAnnotations(settings)
        stack.push_async_callback(annotations.close)
        yield Session(settings, revision, view, followers, flow, log, outbox, desk, annotations)
