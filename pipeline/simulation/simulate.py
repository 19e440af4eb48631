"""Runs a simulated crowd on the running pipeline of a project.

Like any client, it sees only assignments and posteriors of the pipeline.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

from pipeline.kafka.asking import PATIENCE_SECONDS, Asker, NoAnswer, asking
from pipeline.kafka.reading import Reader, reading
from pipeline.progress import Advance
from pipeline.settings import Settings
from pipeline.simulation.crowd_at_work import CrowdAtWork, Plan
from pipeline.simulation.error_curve import ErrorCurve
from pipeline.status.watch import posteriors
from pipeline.topics import Topics


class TasksOfOthers(Exception):
    """The project has open tasks, which simulated workers would answer."""

    def __init__(self, prefix: str, count: int) -> None:
        super().__init__(
            f"{prefix} already has {count:,} open tasks, and a simulated crowd would answer them: "
            "choose another --prefix, or start separate instances with --policy compare"
        )


@dataclass(frozen=True)
class Run:
    """The results of a run: `error` is the error at 1, 2, ... labels per task on average.

    `waits` are the seconds from each request to its assignment; `came_to` is as in `CrowdAtWork`.
    """

    policy: str | None
    error: list[float]
    waits: list[float]
    came_to: Mapping[str, int]
    seconds: float


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan, asker: Asker, reader: Reader, advance: Advance) -> None:
        name = f"simulated-{uuid4().hex[:6]}"  # the project may have tasks of earlier runs
        self._truth = plan.draw_truth(name)
        self._curve = ErrorCurve(self._truth, len(plan.classes))
        self._asker = asker
        self._posteriors = reader
        self._moved = asyncio.Event()
        self._crowd = CrowdAtWork(
            plan, self._truth, plan.draw_workers(name), asker, lambda sent: advance()
        )

    async def follow(self) -> None:
        """Read the posteriors until cancelled."""
        while True:
            records = await self._posteriors.next(seconds=1)
            for posterior in posteriors(records):
                self._curve.learn(posterior)
            if records:
                self._moved.set()

    async def execute(self) -> Run:
        """Run the plan, and close its tasks at the end."""
        curve, crowd = self._curve, self._crowd
        try:
            await self._asker.describe(self._truth)
            await self._until(lambda: curve.tasks == len(self._truth), "tasks were not registered")
            start = monotonic()
            await crowd.work()
            given = crowd.came_to["labels"]
            await self._until(lambda: curve.labels >= given, "labels were not counted")
            seconds = monotonic() - start
            return Run(crowd.policy, curve.points, crowd.waits, crowd.came_to, seconds)
        finally:
            await self._asker.describe(self._truth, status="closed")

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait for a condition while posteriors keep arriving; raises `NoAnswer`."""
        while not condition():
            self._moved.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._moved.wait()
            except TimeoutError:
                raise NoAnswer(
                    f"{problem}, and no posterior arrived for {PATIENCE_SECONDS} seconds: is an "
                    f"instance running? Start one with: {self._asker.start_an_instance}"
                ) from None


async def simulate(settings: Settings, plan: Plan, advance: Advance) -> Run:
    """Run the plan on the pipeline of this project; `advance` is called for every label."""
    topic = Topics(settings).posteriors.name
    async with (
        asking(settings) as asker,
        reading(settings, topic, from_start=True) as reader,
    ):
        await _check_that_nothing_is_open(settings, reader)
        simulation = Simulation(plan, asker, reader, advance)
        try:
            async with asyncio.TaskGroup() as group:
                following = [
                    group.create_task(simulation.follow()),
                    group.create_task(asker.follow()),
                ]
                run = await simulation.execute()
                for task in following:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
    return run


async def _check_that_nothing_is_open(settings: Settings, reader: Reader) -> None:
    is_open: dict[str, bool] = {}
    async for records in reader.to_the_end():
        for posterior in posteriors(records):
            is_open[posterior["task"]] = posterior["status"] == "open"
    if count := sum(is_open.values()):
        raise TasksOfOthers(settings.prefix, count)
