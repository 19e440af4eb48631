"""The report on a project's judges: made in a thread on request, and kept for a while."""

import asyncio
from collections.abc import Callable
from time import monotonic

from orjson import dumps

from sbic.gateway.config import HttpProblem, unavailable
from sbic.gateway.view import ProjectView
from sbic.infer.advice import as_json_object
from sbic.infer.judging import report_on
from sbic.status.judges import Contents, evidence_from

MOST_LABELS = 2_000_000
MOST_TASKS = 200_000
FRESH_SECONDS = 10.0
SHARE = 20  # a report is made again only after this many times as long as it took


class LiveReport:
    """The last report of a project, made again on request once it is old.

    The labels are copied some tasks at a time, between requests; the rest happens in a thread. One
    report is made at a time, and requests that come meanwhile wait for the same one.
    """

    def __init__(
        self, view: ProjectView, *, gold_only: bool, clock: Callable[[], float] = monotonic
    ) -> None:
        self._view = view
        self._gold_only = gold_only
        self._clock = clock
        self._stale_at = 0.0
        self._last: bytes | None = None
        self._making: asyncio.Task[bytes] | None = None

    async def latest(self) -> bytes:
        """Return the report as JSON; raise 503 while labels are read, 422 if they are too many."""
        if self._last is not None and self._clock() < self._stale_at:
            return self._last
        if self._making is None:
            self._check()
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    def _check(self) -> None:
        view = self._view
        if not view.has_labels:
            raise unavailable("the labels are still being read")
        labels, tasks = len(view.standing), len(view.summary.tasks)
        if labels > MOST_LABELS or tasks > MOST_TASKS:
            problem = (
                f"{labels:,} labels on {tasks:,} tasks are too many for a report here "
                f"({MOST_LABELS:,} on {MOST_TASKS:,}): use sbic report"
            )
            raise HttpProblem(422, problem)

    async def _make(self) -> bytes:
        try:
            began, view, columns = self._clock(), self._view, []
            for some in view.standing.columns():
                columns.append(some)
                await asyncio.sleep(0)
            contents = Contents.of(
                view.standing,
                columns,
                view.tasks.all_values(),
                view.workers.all_values(),
                view.summary.activity.findings,
            )
            self._last = await asyncio.to_thread(self._said, contents)
            took = self._clock() - began
            self._stale_at = self._clock() + max(FRESH_SECONDS, SHARE * took)
            return self._last
        finally:
            self._making = None

    def _said(self, contents: Contents) -> bytes:
        report = report_on(evidence_from(contents), gold_only=self._gold_only)
        return dumps(as_json_object(report, self._view.summary.project))
