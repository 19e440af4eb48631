"""Ends an instance that has records to take and takes none, whatever the reason."""

import asyncio
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError
from mode import Service

from sbic.kafka.connect import ANSWER_SECONDS, new_consumer
from sbic.project.settings import Settings
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.consumer import PartitionProgress
from sbic.runtime.faust.stop import RECOVERS, SOFTWARE_ERROR, end
from sbic.runtime.followers import AssignmentsFollower, EstimatesFollower

LOOKS = 12  # within the time after which an instance ends
MOST_SECONDS_BETWEEN = 5.0
REBALANCE_SECONDS = 60.0  # for which Kafka may wait for other members
OTHERS = 10  # times as long: another instance may be recovering its partitions


class Waiting(NamedTuple):
    """Something that waits: how far it has come, why it waits, and for how long it may."""

    name: str
    done: Hashable
    why: str
    limit: float


class StuckWatch(Service):
    """Asks Kafka how far partitions go, on a connection of its own, and compares.

    What the consumer believes is not enough: it may be the one that hangs. Time counts only while
    Kafka answers: an outage is waited out, however long it is. `why_waiting` is what an instance
    has to do before it takes labels, or None.
    """

    def __init__(
        self,
        settings: Settings,
        app: BatchedApp,
        why_waiting: Callable[[], str | None],
        assignments: AssignmentsFollower,
        estimates: EstimatesFollower,
        give_up: Callable[[str], object] = lambda why: end(why, SOFTWARE_ERROR),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.app = app
        self.why_waiting = why_waiting
        self.assignments = assignments
        self.estimates = estimates
        self.give_up = give_up
        self.seconds = 0.0
        """The longest time for which anything has been waiting."""
        self.why: str | None = None
        """What has been waiting for at least half of the time, and why."""
        self.between = min(MOST_SECONDS_BETWEEN, settings.stuck_seconds / LOOKS)
        self._since: dict[str, tuple[Hashable, float]] = {}
        self._looked = monotonic()

    async def on_start(self) -> None:
        """Connect."""
        self._asking = new_consumer(self.settings, isolation_level="read_committed")
        await self._asking.start()

    async def on_stop(self) -> None:
        await self._asking.stop()

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.sleep(self.between)
            if not self.should_stop and not self.app.should_stop:
                await self.look()

    async def look(self) -> None:
        """Note what has come on since the last look; give up what has not for too long."""
        now, before = monotonic(), self._looked
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                waiting = await self._waiting()
        except (TimeoutError, KafkaError):
            waiting = []
        self._looked = monotonic()
        if self._looked - before > self.between + 2 * ANSWER_SECONDS:
            waiting = []  # this process was stopped, or its loop was blocked: it did not wait
        known, self._since = self._since, {}
        self.seconds, self.why = 0.0, None
        for each in waiting:
            done, since = known.get(each.name, (each.done, now))
            since = now if done != each.done else since
            self._since[each.name] = each.done, since
            waited = now - since
            self.seconds = max(self.seconds, waited)
            if waited >= each.limit / 2:
                self.why = f"no progress on {each.name} for {waited:.0f} s: {each.why}"
            if waited >= each.limit:
                self.give_up(f"{self.why}. {RECOVERS}")

    async def _waiting(self) -> list[Waiting]:
        """Return what waits now; raise if Kafka does not answer."""
        why_not = self.why_waiting()
        if why_not is None:
            return await self._partitions()
        await self._asking.topics()
        missing = self.estimates.exchange.missing
        positions = sum(self.assignments.positions)
        done = self.app.rebalances, self.app.recovery.progress.read, positions, *missing
        limit = self.settings.stuck_seconds + REBALANCE_SECONDS
        if missing:
            limit = OTHERS * self.settings.stuck_seconds
        return [Waiting("becoming ready", done, why_not, limit)]

    async def _partitions(self) -> list[Waiting]:
        """Return the partitions of this instance with records that it has not finished."""
        standing = list(self.app.standing())
        places = [each.place for each in standing]
        if not places:
            return []
        ends = await self._asking.end_offsets(places)
        behind = [each for each in standing if each.done < ends[each.place]]
        begins = await self._asking.beginning_offsets([each.place for each in behind])
        return [
            Waiting(
                f"{each.place.topic}, partition {each.place.partition}",
                each.done,
                self._why(each, begins[each.place], ends[each.place]),
                self.settings.stuck_seconds,
            )
            for each in behind
        ]

    def _why(self, standing: PartitionProgress, begin: int, end: int) -> str:
        """Return why a partition does not come on, as far as can be known."""
        has = f"Kafka has records from offset {max(begin, standing.done):,} to {end - 1:,}"
        silent = self.app.fence.silent_seconds
        if silent > self.app.fence.session_seconds:
            return f"{has}, but the coordinator of the group has not answered for {silent:.0f} s"
        if standing.is_in_hand:
            return f"{has}; some were fetched, but their results are not published"
        if begin > standing.done:
            return f"{has}; those before have expired, and none is fetched"
        return f"{has}, but none is fetched"
