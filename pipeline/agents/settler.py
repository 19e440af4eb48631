"""Refreshes, in the background, tasks whose workers have become better known."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from mode import Service

from pipeline.agents.publisher import Publisher
from pipeline.agents.telemetry.settled_log import SettledLog
from pipeline.batched.stop import abort

LABELS_AT_ONCE = 2_000  # weighed again in one step: about a millisecond
BUSY_SECONDS = 0.1  # for which an instance counts as busy after a label
SHARE = 0.05  # of the time while it is busy, publishing included
PUBLISHING_SECONDS = 6e-6  # for each task
AT_LEAST_SECONDS = 0.1  # of work before it waits
IDLE_SECONDS = 0.05
SECONDS_BETWEEN_REPORTS = 2.0


class Settler(Service):
    """Lets the engine come to rest; new labels always go first.

    Every few seconds it publishes in the estimates topic whether the engine is at rest, for
    `sbic status`. `is_caught_up` returns whether this instance has no lag.
    """

    def __init__(
        self, publisher: Publisher, is_caught_up: Callable[[], bool], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.publisher = publisher
        self.is_caught_up = is_caught_up
        self.refresh_due = self.report_due = 0.0
        self.engine = publisher.crowd.engine
        self.settled_log = SettledLog()

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                if not self._is_busy or monotonic() >= self.refresh_due:
                    await self._refresh()
                self._report(monotonic())
                await asyncio.sleep(IDLE_SECONDS)
        except Exception as error:
            abort(error)

    async def _refresh(self) -> None:
        """Refresh due tasks: all, or while labels arrive only some, and the others later.

        A task that becomes due several times before that is refreshed once.
        """
        spent, moved = 0.0, self.engine.tasks_moved
        while self._may_refresh and not self.engine.is_at_rest:
            begun = monotonic()
            self.engine.refresh_due(LABELS_AT_ONCE)
            spent += monotonic() - begun
            await asyncio.sleep(0)
            if self._is_busy and spent > AT_LEAST_SECONDS:
                break
        spent += PUBLISHING_SECONDS * max(0, self.engine.tasks_moved - moved)
        if self.engine.has_news:
            self.publisher.groups.notify()
        self.refresh_due = monotonic() + max(spent, AT_LEAST_SECONDS) * (1 / SHARE - 1)

    def _report(self, now: float) -> None:
        if now < self.report_due:
            return
        self.report_due = now + SECONDS_BETWEEN_REPORTS
        rests = self.is_at_rest and not self.engine.has_news and self.is_caught_up()
        self.settled_log.look(rests, self.engine.due, now)
        if estimates := self.publisher.exchange.rest(rests):
            self.publisher.publish_estimates(estimates)

    @property
    def is_at_rest(self) -> bool:
        """Whether everything is restored and no task is due."""
        return self.publisher.stage.is_restored and self.engine.is_at_rest

    @property
    def _may_refresh(self) -> bool:
        return self.publisher.stage.is_restored and not self.should_stop

    @property
    def _is_busy(self) -> bool:
        return monotonic() < self.publisher.took_labels_at + BUSY_SECONDS
