"""The demo: the same labels through two projects, one for each algorithm.

The workers of a crowd first request tasks and answer them; then the rest of the labels is sent at
once. Majority vote on the same labels is computed here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from pipeline.inference.registry import STREAMED
from pipeline.kafka.asking import Asker, NoAnswer
from pipeline.kafka.sending import Label, Sent
from pipeline.local.gateway import gateway_of, opening
from pipeline.local.instances import instances_of, running
from pipeline.local.ports import free_port
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings
from pipeline.simulation.crowd_at_work import CrowdAtWork, Plan
from pipeline.simulation.demo_project import DemoProject, demo_project, until_ready
from pipeline.simulation.rush import rush
from pipeline.simulation.scoreboard import Scoreboard

READY_SECONDS = 60
SHOW_SECONDS = 0.1
WARM_UP = 0.2  # the share of the first labels that latency leaves out, while Java warms up
NAME = "demo"
ALGORITHMS = STREAMED  # the first assigns the tasks


class DemoFailed(Exception):
    """The pipeline did not answer; `log` has the last log lines of the instances."""

    def __init__(self, problem: str, log: list[str]) -> None:
        super().__init__(problem)
        self.log = log


@dataclass
class Stage:
    """The current stage, for the screen."""

    title: str
    is_steady: bool = False
    labels: int = 0
    started: float = 0.0
    counted_before: int = 0


class Errors(NamedTuple):
    """The shares of tasks that are predicted wrong, on the same labels."""

    majority: float
    fast_sbic: float
    settled: float


class Standing:
    """The scoreboards of the algorithms."""

    def __init__(self, truth: Mapping[str, int | str]) -> None:
        self.boards = {algorithm: Scoreboard(truth) for algorithm in ALGORITHMS}

    @property
    def first(self) -> Scoreboard:
        """The board of the project that assigns the tasks."""
        return self.boards[ALGORITHMS[0]]

    @property
    def counted(self) -> int:
        """How many labels both projects have counted."""
        return min(board.counted for board in self.boards.values())

    @property
    def errors(self) -> Errors:
        """The current errors."""
        own = (self.boards[algorithm].error for algorithm in ALGORITHMS)
        return Errors(self.first.majority_error, *own)


class Times(NamedTuple):
    """The median and the 99th percentile of some durations, in seconds."""

    median: float
    p99: float


@dataclass(frozen=True)
class Result:
    """The results of the demo."""

    tasks: int
    labels: int
    is_counted_once: bool
    asked_labels: int
    asked_seconds: float
    assignment: Times
    latency: Times
    asked_errors: Errors
    rush_labels: int
    rush_seconds: float
    errors: Errors


class Demo:
    """Runs a crowd through instances on a running broker.

    First the workers request tasks and answer them, according to the plan; then `rush_labels` more
    labels are sent at once. Each project has this number of `instances`. `show` is called several
    times a second. The page of both projects is at `page_port` meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        instances: int,
        rush_labels: int,
        show: Callable[[Stage, Standing], None],
        page_port: int,
        opens_page: bool = False,
    ) -> None:
        self.page_port = page_port
        self.opens_page = opens_page
        self.given = Given.of(settings)
        self.settings = {
            algorithm: replace(settings, algorithm=algorithm, prefix=f"{NAME}-{algorithm}")
            for algorithm in ALGORITHMS
        }
        self.plan = plan
        self.rush_labels = rush_labels
        self.ports = {name: [free_port() for _ in range(instances)] for name in ALGORITHMS}
        self.truth = plan.draw_truth(NAME)
        self.standing = Standing(self.truth)
        self.stage = Stage("starting the instances")
        self._show = show
        self._shown = 0.0

    async def run(self) -> Result:
        """Run the demo; on return the instances have exited."""
        log: list[str] = []
        commands = []
        for algorithm, settings in self.settings.items():
            given = Given.of(settings)
            await open_project(given)
            commands += instances_of(given, self.ports[algorithm])
        prefixes = [settings.prefix for settings in self.settings.values()]
        commands.append(gateway_of(self.given, prefixes, self.page_port))

        def keep(name: str, line: str) -> None:
            log.append(f"{name} | {line}")

        try:
            async with running(commands, log=keep, report=keep), AsyncExitStack() as stack:
                if self.opens_page:
                    await stack.enter_async_context(opening(self.page_port, keep))
                ports = [port for each in self.ports.values() for port in each]
                await until_ready(ports, READY_SECONDS, self.show)
                projects = []
                for algorithm, settings in self.settings.items():
                    board, own = self.standing.boards[algorithm], self.ports[algorithm]
                    opened = demo_project(settings, board, own, self.show)
                    projects.append(await stack.enter_async_context(opened))
                return await self._measure(projects)
        except (TimeoutError, NoAnswer) as error:
            raise DemoFailed(str(error), log[-30:]) from None

    def show(self) -> None:
        """Show the current state, at most every `SHOW_SECONDS`."""
        if monotonic() - self._shown > SHOW_SECONDS:
            self._show(self.stage, self.standing)
            self._shown = monotonic()

    async def _measure(self, projects: list[DemoProject]) -> Result:
        plan, standing = self.plan, self.standing
        workers = plan.draw_workers(NAME)
        first, *others = projects
        answered: set[tuple[str, str]] = set()
        to_mirror: list[list[Label]] = [[] for _ in others]
        is_over = asyncio.Event()

        def given(sent: Sent) -> None:
            first.board.sent(sent, monotonic())
            answered.update((task, worker) for task, worker, _ in sent.labels)
            for labels in to_mirror:
                labels += sent.labels

        async def work() -> None:
            await crowd.work()
            is_over.set()

        crowd = CrowdAtWork(plan, self.truth, workers, first.asker, given)
        self.stage = Stage(f"registering {len(self.truth):,} tasks")
        await self._stage(projects, (each.asker.describe(self.truth) for each in projects))
        self.stage = Stage("workers request tasks and answer them", True, plan.labels)
        mirrors = (
            each.mirror(labels, is_over) for each, labels in zip(others, to_mirror, strict=True)
        )
        async with following(first.asker):
            asked_seconds = await self._stage(projects, [work(), *mirrors])
        latency, assignment = times(first.board.latencies), times(crowd.waits)
        asked_errors = standing.errors
        labels = rush(self.rush_labels, self.truth, workers, answered, plan.seed)
        self.stage = Stage("the rest of the labels at once", labels=len(labels))
        rush_seconds = await self._stage(projects, (each.send(labels) for each in projects))
        for project in projects:
            await project.settle()
        count = plan.labels + len(labels)
        return Result(
            tasks=len(self.truth),
            labels=count,
            is_counted_once=all(one.board.labels_in_posteriors == count for one in projects),
            asked_labels=plan.labels,
            asked_seconds=asked_seconds,
            assignment=assignment,
            latency=latency,
            asked_errors=asked_errors,
            rush_labels=len(labels),
            rush_seconds=rush_seconds,
            errors=standing.errors,
        )

    async def _stage(
        self, projects: list[DemoProject], work: Iterable[Coroutine[Any, Any, None]]
    ) -> float:
        """Run the work, and follow posteriors until all is counted; returns the seconds it took."""
        stage = self.stage
        stage.started, stage.counted_before = monotonic(), self.standing.counted
        try:
            async with asyncio.TaskGroup() as group:
                for part in work:
                    group.create_task(part)
                for project in projects:
                    group.create_task(project.follow(project.board.counted + stage.labels))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        self._show(stage, self.standing)
        return monotonic() - stage.started


@asynccontextmanager
async def following(asker: Asker) -> AsyncIterator[None]:
    """Let the asker read assignments while the block runs."""
    task = asyncio.create_task(asker.follow())
    try:
        yield
    finally:
        task.cancel()


def times(seconds: list[float]) -> Times:
    """The median and the 99th percentile after the warm-up."""
    return Times(*np.percentile(seconds[int(len(seconds) * WARM_UP) :], [50, 99]).tolist())
