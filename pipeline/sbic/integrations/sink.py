"""Keeps the tables of a database up to date with the topics of a project."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import ParamSpec, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

from sbic.integrations.database import (
    ASSIGNMENTS,
    POSTERIORS,
    TABLES,
    WORKERS,
    AppliedOffsets,
    BadTarget,
    Database,
    DatabaseTrouble,
    Table,
    Values,
)
from sbic.kafka.connect import connected, until_first
from sbic.kafka.errors import ClusterError, MissingTopic, Refused
from sbic.kafka.groups import SinkOffsets
from sbic.kafka.protocol import TopicIds
from sbic.kafka.reader import Reader, committed_consumer, reading
from sbic.progress import progress
from sbic.project.added import check_partitions_on
from sbic.project.opening import ProjectLog, Unfinished, existing_project, settings_of
from sbic.project.revision import Given, Revision
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.bad import BadRecord, id_of_key

LOOK_SECONDS = 1.0
RETRY_SECONDS = 2.0

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("sbic")


class SinkMetrics:
    """The metrics of a sink, in base units."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._clock = clock
        self._records = Counter(
            "sbic_sink_records",
            "Records whose state is in the tables; some were replaced by a later one at once.",
            ["topic"],
            registry=self.registry,
        )
        self._refused = Counter(
            "sbic_sink_refused",
            "Records that are not sbic's, or that the database cannot hold: they were left out.",
            ["topic"],
            registry=self.registry,
        )
        self._lag = Gauge(
            "sbic_sink_lag_records",
            "Records of the topic that are not in the tables yet.",
            ["topic"],
            registry=self.registry,
        )
        self._late = Gauge(
            "sbic_sink_lag_seconds",
            "How long the tables have not had all that the topic had.",
            ["topic"],
            registry=self.registry,
        )
        self._connected = Gauge(
            "sbic_sink_connected",
            "1 while the sink is connected to Kafka and the database.",
            registry=self.registry,
        )
        for table in TABLES:
            up_to_date_at = self._clock()
            self._records.labels(table.name)
            self._refused.labels(table.name)
            self.lag(table, 0, up_to_date_at)

    def wrote(self, table: Table, records: int, refused: int) -> None:
        """Count the records of a transaction."""
        self._records.labels(table.name).inc(records - refused)
        self._refused.labels(table.name).inc(refused)

    def lag(self, table: Table, records: int, up_to_date_at: float) -> None:
        """Set the lag; the tables were last up to date at this time of the clock."""
        self._lag.labels(table.name).set(records)
        self._late.labels(table.name).set_function(lambda: self._clock() - up_to_date_at)

    def connected(self, is_connected: bool) -> None:
        """Set whether the sink is connected."""
        self._connected.set(is_connected)


class Feed:
    """Writes the records of one topic to its table."""

    def __init__(
        self,
        table: Table,
        topic_id: str,
        reader: Reader,
        offsets: Sequence[int],
        do: "DatabaseThread",
        database: Database,
        metrics: SinkMetrics,
    ) -> None:
        self.table = table
        self._topic_id = topic_id
        self._reader = reader
        self._offsets = list(offsets)
        self._do = do
        self._database = database
        self._metrics = metrics
        self._up_to_date_at = monotonic()

    @property
    def applied(self) -> dict[TopicPartition, int]:
        """The offsets up to which the table has everything."""
        return {tp: self._offsets[tp.partition] for tp in self._reader.partitions}

    async def remaining(self) -> int:
        """How many records are still to be read."""
        return await self._reader.remaining()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        async for records in self._reader.follow():
            await self._write(records)

    async def run_to_the_end(self, advance: Callable[[int], None]) -> None:
        """Write what the topic had when the reader was made."""
        async for records in self._reader.to_the_end():
            await self._write(records)
            advance(len(records))
        await self._write([])

    async def look(self, asking: AIOKafkaConsumer) -> None:
        """Measure the lag."""
        now = monotonic()
        await self._reader.move_end(asking)
        ends = [self._reader.ends[tp] for tp in self._reader.partitions]
        lag = sum(max(0, end - offset) for end, offset in zip(ends, self._offsets, strict=True))
        if not lag:
            self._up_to_date_at = now
        self._metrics.lag(self.table, lag, self._up_to_date_at)

    async def _write(self, records: Sequence[ConsumerRecord]) -> None:
        moved: dict[int, AppliedOffsets] = {}
        for tp in self._reader.partitions:
            # the position passes over what is no record, such as the marks of transactions
            before, after = self._offsets[tp.partition], await self._reader.consumer.position(tp)
            if after != before:
                end = max(after, self._reader.ends[tp])
                moved[tp.partition] = AppliedOffsets(before, after, end)
        if not moved:
            return
        rows, deleted, refused = self._read(records)
        refused += await self._do(
            self._database.write, self.table, self._topic_id, rows, deleted, moved
        )
        for partition, (_, offset, _) in moved.items():
            self._offsets[partition] = offset
        self._metrics.wrote(self.table, len(records), refused)

    def _read(self, records: Iterable[ConsumerRecord]) -> tuple[list[Values], list[str], int]:
        """Rows, the keys of tombstones, and how many records are not sbic's."""
        rows: dict[str, Values] = {}
        deleted: dict[str, None] = {}
        every: list[Values] = []
        refused = 0
        for record in records:
            try:
                if record.value is None:
                    key = id_of_key(record.key)
                    rows.pop(key, None)
                    deleted[key] = None
                    continue
                row = self.table.row(record.value, record.timestamp)
            except BadRecord:
                refused += 1
                continue
            if self.table.keeps:
                every.append(row)
            else:
                rows[row[0]] = row  # of several records of a key only the last matters
        return every or list(rows.values()), list(deleted), refused


class DatabaseThread:
    """Runs what blocks in one thread, one after the other, also after the caller was cancelled."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "sbic-sink")

    async def __call__(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return what the function returns."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*arguments, **named))

    def stop(self) -> None:
        """Wait for what is running."""
        self._pool.shutdown()


@dataclass(frozen=True)
class TableSource:
    """A table, its topic, and the topic whose recreation makes its rows meaningless."""

    table: Table
    topic: Topic
    root: Topic


def sources_of(settings: Settings) -> list[TableSource]:
    """Return the tables of a project, and where they come from.

    Ids of assignments are made of offsets of the requests: a new key recreates the assignments
    alone, and those that are known stay true.
    """
    topics = Topics(settings)
    return [
        TableSource(POSTERIORS, topics.posteriors, topics.posteriors),
        TableSource(WORKERS, topics.workers, topics.workers),
        TableSource(ASSIGNMENTS, topics.assignments, topics.requests),
    ]


class SinkSession:
    """The feeds of a project as of a revision."""

    def __init__(
        self,
        settings: Settings,
        revision: Revision,
        ids: dict[str, str],
        feeds: Sequence[Feed],
        asking: AIOKafkaConsumer,
        log: ProjectLog,
        topic_ids: TopicIds,
    ) -> None:
        self.settings = settings
        self._revision = revision
        self._ids = ids
        self._feeds = feeds
        self._asking = asking
        self._log = log
        self._topic_ids = topic_ids

    async def run(self, shown: SinkOffsets) -> None:
        """Write what comes, until the project is another."""
        async with shown.committed(self.settings, self._applied):
            await until_first(self._look(), *(feed.run() for feed in self._feeds))

    def _applied(self) -> dict[TopicPartition, int]:
        return {tp: offset for feed in self._feeds for tp, offset in feed.applied.items()}

    async def run_to_the_end(self) -> None:
        """Write what the topics had at the start; raises `Refused` if they were recreated."""
        for feed in self._feeds:
            title = f"Writing {feed.table.name}"
            with progress(title, total=await feed.remaining()) as advance:
                await feed.run_to_the_end(advance)
        if await self._topic_ids.find(self._ids) != self._ids:
            raise Refused("topics were recreated meanwhile: run the command again")

    async def _look(self) -> None:
        """Measure the lag, until topics are recreated; raises `AddedPartitions`.

        Nothing is wrong in between: what was read is in the tables with the ids of the topics as
        they were, and the next session finds others.
        """
        last = await self._log.read()
        while last == self._revision or (last and self._revision.is_followed_by(last)):
            for feed in self._feeds:
                await feed.look(self._asking)
            if await self._topic_ids.find(self._ids) != self._ids:
                return
            await check_partitions_on(self._topic_ids, self._asking)
            await asyncio.sleep(LOOK_SECONDS)
            last = await self._log.read()


@asynccontextmanager
async def session(
    given: Given, database: Database, do: DatabaseThread, metrics: SinkMetrics
) -> AsyncIterator[SinkSession]:
    """Connect a session with the project as it is now."""
    revision = await existing_project(given.place)
    if revision.state != "ready":
        raise Unfinished(given.place.prefix, revision)
    settings = settings_of(revision, given)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        asking = await enter(connected(committed_consumer(settings), settings))
        log = await enter(connected(ProjectLog(settings), settings))
        topic_ids = await enter(connected(TopicIds(settings), settings))
        sources = sources_of(settings)
        await check_partitions_on(topic_ids, asking)
        names = {topic.name for source in sources for topic in (source.topic, source.root)}
        ids = await topic_ids.find(names)
        for name in names - ids.keys():
            raise MissingTopic(name, settings)
        feeds = []
        for table, topic, root in ((each.table, each.topic, each.root) for each in sources):
            reader = await enter(reading(settings, topic.name, from_start=True))
            begins = await asking.beginning_offsets(reader.partitions)
            extents = [(begins[tp], reader.ends[tp]) for tp in reader.partitions]
            if root != topic:
                await do(database.resume, "requests", ids[root.name], [(0, 0)], table)
            clears = table if root == topic else None
            offsets = await do(database.resume, table.name, ids[topic.name], extents, clears)
            for tp in reader.partitions:
                reader.consumer.seek(tp, offsets[tp.partition])
            feeds.append(Feed(table, ids[topic.name], reader, offsets, do, database, metrics))
        yield SinkSession(settings, revision, ids, feeds, asking, log, topic_ids)


async def fill(given: Given, database: Database) -> None:
    """Write what the topics have now, and return.

    Raises `ClusterError`, `DatabaseTrouble` and `BadTarget`.
    """
    do = DatabaseThread()
    try:
        await do(database.open)
        async with session(given, database, do, SinkMetrics()) as now:
            await now.run_to_the_end()
    finally:
        await do(database.close)
        do.stop()


async def keep(given: Given, database: Database, metrics: SinkMetrics, name: str) -> None:
    """Write what comes, until cancelled; `name` is what status calls this sink.

    What is wrong at the start is raised, as by `fill`. Later, Kafka and the database may go away
    and come back; a recount is waited for.
    """
    do, shown = DatabaseThread(), SinkOffsets(name)
    said: str | None = None
    has_started = False
    try:
        while True:
            try:
                await do(database.open)
                async with session(given, database, do, metrics) as now:
                    has_started, said = True, None
                    metrics.connected(True)
                    log.info("writing the project %s to %s", given.place.prefix, database)
                    await now.run(shown)
                log.info("the project has changed: reading it again")
            except (ClusterError, KafkaError, DatabaseTrouble, BadTarget) as error:
                if not has_started and not isinstance(error, Unfinished):
                    raise
                if str(error) != said:
                    log.warning("%s", error)
                said = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                metrics.connected(False)
                await do(database.close)
    finally:
        do.stop()
