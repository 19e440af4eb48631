"""Keeps a survey of the own tasks and workers, in the background."""

import asyncio
from time import monotonic, thread_time
from typing import Any

from mode import Service

from pipeline.batched.stop import abort
from pipeline.stages.survey import Survey, Surveyor

SECONDS_BETWEEN = 2.0
SHARE = 0.02  # of the time, at the most, however many tasks there are


class TaskSurvey(Service):
    """Makes one survey after the other; `last` is the last complete one."""

    def __init__(self, surveyor: Surveyor, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.surveyor = surveyor
        self.last = Survey()

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                due = monotonic() + SECONDS_BETWEEN
                await self._make()
                await self.sleep(max(0.0, due - monotonic()))
        except Exception as error:
            abort(error)

    async def _make(self) -> None:
        survey = Survey()
        begun = thread_time()
        for _ in self.surveyor.steps(survey):
            spent = thread_time() - begun
            await asyncio.sleep(spent * (1 / SHARE - 1))
            if self.should_stop:
                return
            begun = thread_time()
        self.last = survey
