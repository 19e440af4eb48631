"""The projects of a gateway: connected and read in the background until their settings change."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter

from aiohttp import web
from aiokafka import ConsumerRecord
from aiokafka.errors import KafkaError

from sbic.gateway.body import Posted
from sbic.gateway.config import HttpProblem, unavailable
from sbic.gateway.report import LiveReport
from sbic.gateway.view import ProjectView
from sbic.integrations.label_studio import Annotations
from sbic.integrations.label_studio_import import AnnotationsFollower, following_annotations
from sbic.kafka.connect import connected, explained, until_first
from sbic.kafka.errors import ClusterError, Refused
from sbic.kafka.protocol import TopicIds, check_role
from sbic.kafka.reader import Reader, committed_consumer, reading
from sbic.kafka.requests import Asker
from sbic.kafka.rights import Operation
from sbic.kafka.writer import NotAcknowledged, ReconnectingWriter
from sbic.project.added import AddedPartitions, check_partitions, check_partitions_on
from sbic.project.opening import ProjectLog, read_project, settings_at
from sbic.project.revision import Given, Revision
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import Standing, compile_engine
from sbic.status.reading import FlowReader, empty_summary, reading_flow, shown_settings
from sbic.status.roster import naming
from sbic.wire.labels import label_parser
from sbic.wire.partitions import Row
from sbic.wire.tasks import task_parser
from sbic.wire.workers import parse_roster


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


# Follows a topic from its start in small portions; requests are served meanwhile.


AT_ONCE = 250  # records: a few milliseconds
PAUSE = 0.5  # of the time that a portion took


class TopicFollower:
    """Passes every record of a topic to `take`; sets `caught_up` at the end offset it had."""

    def __init__(
        self, name: str, reader: Reader, take: Callable[[Sequence[ConsumerRecord]], None]
    ) -> None:
        self.name = name
        self.caught_up = asyncio.Event()
        self._reader = reader
        self._take = take
        self._total = self._remaining = sum(reader.ends.values())

    def __str__(self) -> str:
        done = self._total - self._remaining
        return f"reading {self.name}: {done:,} of {self._total:,} records"

    async def run(self) -> None:
        """Read until cancelled."""
        self._total = await self._reader.remaining()
        while True:
            if not self.caught_up.is_set():
                self._remaining = await self._reader.remaining()
                if self._remaining <= 0:
                    self.caught_up.set()
            records = await self._reader.next(seconds=1)
            for start in range(0, len(records), AT_ONCE):
                began = perf_counter()
                self._take(records[start : start + AT_ONCE])
                await asyncio.sleep(PAUSE * (perf_counter() - began))


# The annotations of Label Studio in a project, read on demand.


PATIENCE_SECONDS = 10  # without any record, before Kafka is considered unreachable


class KnownAnnotations:
    """Reads the labels topic from its start on first use, and only new records after that.

    A gateway that gets no webhooks, or only those of created annotations, reads nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._follower: AnnotationsFollower | None = None

    @asynccontextmanager
    async def up_to_date(self) -> AsyncIterator[Annotations]:
        """All annotations in the topic now, under a lock.

        The caller has to call `learn` for every record that it sends. If the block fails, the topic
        is read again the next time, since it is unknown what was published. Raises `ClusterError`.
        """
        async with self._turn:
            try:
                if self._follower is None:
                    following = following_annotations(self._settings)
                    self._follower = await self._connection.enter_async_context(following)
                await _catch_up(self._follower)
                yield self._follower.known
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Drop the annotations and close the connection."""
        self._follower = None
        connection, self._connection = self._connection, AsyncExitStack()
        await connection.aclose()


async def _catch_up(follower: AnnotationsFollower) -> None:
    """Read up to the end; raise `Refused` if Kafka stops answering."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS) as patience:
            async for records in follower.catch_up():
                if records:
                    patience.reschedule(loop.time() + PATIENCE_SECONDS)
    except (TimeoutError, KafkaError) as error:
        raise Refused(f"Kafka does not answer: {str(error) or 'no records come'}") from None


class UserNames:
    """Names workers in the roster after the users of Label Studio, those that have no name yet.

    It runs beside the requests, which people wait for.
    """

    def __init__(self, settings: Settings, writer: ReconnectingWriter) -> None:
        self._settings = settings
        self._writer = writer
        self._offered: dict[str, str] = {}
        self._done: set[str] = set()
        self._is_offered = asyncio.Event()

    def offer(self, users: Iterable[tuple[str, str]]) -> None:
        """Name these workers soon."""
        for worker, name in users:
            if worker not in self._done:
                self._offered[worker] = name
                self._is_offered.set()

    async def run(self) -> None:
        """Name workers until cancelled; those that fail are named the next time."""
        while True:
            await self._is_offered.wait()
            self._is_offered.clear()
            names, self._offered = self._offered, {}
            try:
                await self._name(names)
            except (ClusterError, KafkaError, NotAcknowledged) as error:
                log.warning("users of Label Studio have no names in the roster: %s", error)
            else:
                self._done |= names.keys()

    async def _name(self, names: Mapping[str, str]) -> None:
        if rows := await naming(self._settings, names):
            await self._writer.send(Topics(self._settings).roster.name, rows)


LOOK_SECONDS = 1.0
ASSIGNMENT_SECONDS = 10.0  # that a request waits for its assignments


class ProjectSession:
    """The state of a project as of a revision, kept up to date while `run` runs."""

    def __init__(
        self,
        settings: Settings,
        revision: Revision | None,
        view: ProjectView,
        followers: dict[str, TopicFollower],
        flow: FlowReader,
        log: ProjectLog,
        topic_ids: TopicIds,
        writer: ReconnectingWriter,
        asker: Asker,
        annotations: KnownAnnotations,
        users: UserNames,
    ) -> None:
        self.settings = settings
        self.revision = revision
        self.topics = Topics(settings)
        self.view = view
        self.writer = writer
        self.asker = asker
        self.annotations = annotations
        self.users = users
        self.report = LiveReport(view, gold_only=False)
        self.gold_report = LiveReport(view, gold_only=True)
        self.trouble: str | None = None
        self._followers = followers
        self._flow = flow
        self._log = log
        self._topic_ids = topic_ids
        self._looked = False
        self._parse_label = label_parser(settings.crowd_classes)
        self._parse_task = task_parser(settings.crowd_classes)

    def label_row(self, posted: Posted) -> Row:
        """Return the key and value of a label; raise `BadRecord`."""
        _, worker, _ = self._parse_label(posted.content)
        return Row(worker.encode(), posted.value)

    def task_row(self, posted: Posted) -> Row:
        """Return the key and value of a task's description; raise `BadRecord`."""
        return Row(self._parse_task(None, posted.content)["task"].encode(), posted.value)

    def roster_row(self, posted: Posted) -> Row:
        """Return the key and value of a record of the roster; raise `BadRecord`."""
        return Row(parse_roster(None, posted.content)[0].encode(), posted.value)

    @property
    def why_not_readable(self) -> str | None:
        """What is still being read, or None; what was read stays available without Kafka."""
        for name in ("posteriors", "workers", "dead letters"):
            if not self._followers[name].caught_up.is_set():
                return str(self._followers[name])
        return None if self._looked else "asking Kafka for the group"

    async def run(self) -> None:
        """Read until the project's settings change."""
        await until_first(
            self._watch_group_and_settings(),
            *(each.run() for name, each in self._followers.items() if name != "labels"),
            self._follow_labels(),
            self.writer.run(),
            self.users.run(),
            self.asker.follow(),
        )

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
        """Poll the group and the activity; returns when the project's settings have changed.

        Raises `AddedPartitions`: nothing here reads those.
        """
        last = await self._log.read()
        while self._follows(last):
            try:
                group = await self._flow.group()
                self.view.summary.update(await self._flow.activity(group))
                last = await self._log.read()
                await check_partitions_on(self._topic_ids, self._flow.asking)
                self._looked, self.trouble = True, None
            except AddedPartitions:
                raise
            except ClusterError as error:
                self.trouble = str(error)
            except KafkaError as error:
                self.trouble = str(await explained(error, self.settings, Operation.DESCRIBE))
            self.view.refresh()
            await asyncio.sleep(LOOK_SECONDS)

    def _follows(self, last: Revision | None) -> bool:
        """Whether the session can go on with the last revision; takes over its rules."""
        if last == self.revision:
            return True
        if last is None or self.revision is None or not self.revision.is_followed_by(last):
            return False
        self.revision, self.settings = last, last.apply_to(self.settings)
        self.view.summary.follow(shown_settings(self.settings))
        return True


@asynccontextmanager
async def session(given: Given) -> AsyncIterator[ProjectSession]:
    """Connect a session with the project as it is now."""
    revision = await read_project(given.place)
    settings = settings_at(revision, given)
    await check_role(settings, "gateway")
    await check_partitions(settings)
    topics = Topics(settings)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        asking = await enter(connected(committed_consumer(settings), settings))
        log = await enter(connected(ProjectLog(settings), settings))
        topic_ids = await enter(connected(TopicIds(settings), settings))
        flow = await enter(reading_flow(settings, asking))
        standing = Standing(settings.crowd_classes, settings.partitions, settings.repeats)
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
            followers[name] = TopicFollower(name, reader, take)
        writer = ReconnectingWriter(settings, settings.partitions)
        assignments = await enter(reading(settings, topics.assignments.name, from_start=False))
        asker = Asker(topics, writer.send, assignments, ASSIGNMENT_SECONDS)
        annotations = KnownAnnotations(settings)
        stack.push_async_callback(annotations.close)
        yield ProjectSession(
            settings,
            revision,
            view,
            followers,
            flow,
            log,
            topic_ids,
            writer,
            asker,
            annotations,
            UserNames(settings, writer),
        )


# The projects that a gateway serves, each followed in the background.


RETRY_SECONDS = 1.0

log = logging.getLogger("sbic")


class Project:
    """One project: its session, or the reason why there is none."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.prefix = given.place.prefix
        self.current: ProjectSession | None = None
        """The session, if there is one."""
        self._why_none = "connecting to Kafka"

    async def follow(self) -> None:
        """Keep a session with the project until cancelled."""
        while True:
            try:
                async with session(self.given) as self.current:
                    await self.current.run()
                log.info("the project %s has changed: reading it again", self.prefix)
                self._why_none = "the project has changed"
            except (ClusterError, KafkaError) as error:
                if str(error) != self._why_none:
                    log.warning("%s: %s", self.prefix, error)
                self._why_none = str(error)
            except Exception:
                log.exception("%s: following the project failed", self.prefix)
                self._why_none = "following the project failed; see the gateway's log"
            self.current = None
            await asyncio.sleep(RETRY_SECONDS)

    @property
    def session(self) -> ProjectSession:
        """The session; raises 503 if there is none."""
        if self.current is None:
            raise unavailable(self._why_none)
        return self.current

    @property
    def readable(self) -> ProjectSession:
        """The session, once its topics have been read; raises 503 before."""
        now = self.session
        if why_not := now.why_not_readable:
            raise unavailable(why_not)
        return now

    @property
    def why_not_ready(self) -> str | None:
        """Why this project cannot be served in full; None if it can."""
        if self.current is None:
            return self._why_none
        now = self.current
        return now.why_not_readable or now.trouble or now.writer.why_not


class Projects:
    """All projects by their prefixes; the first is the default."""

    def __init__(self, projects: Sequence[Project]) -> None:
        self.by_prefix = {project.prefix: project for project in projects}
        self.default = projects[0].prefix

    def of(self, request: web.Request) -> Project:
        """Return the project of a request; raise 404."""
        return self.named(request.query.get("project", self.default))

    def named(self, prefix: str) -> Project:
        """Return the project with this prefix; raise 404."""
        try:
            return self.by_prefix[prefix]
        except KeyError:
            served = ", ".join(self.by_prefix)
            raise HttpProblem(404, f"no such project; this gateway serves: {served}") from None

    @property
    def why_not_ready(self) -> str | None:
        """Why not all projects can be served; None if they can."""
        for project in self.by_prefix.values():
            if why_not := project.why_not_ready:
                return f"{project.prefix}: {why_not}"
        return None
