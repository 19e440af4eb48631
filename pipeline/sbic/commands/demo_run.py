"""The demo: the same labels through two projects, one for each algorithm.

The workers of a crowd first request tasks and answer them; then the rest of the labels is sent at
once. Majority vote on the same labels is computed here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from sbic.classes import SIGNS
from sbic.commands.crowd import (
    CrowdAtWork,
    CrowdClient,
    ErrorCurve,
    NoAnswer,
    Plan,
    crowd_client,
    rush,
)
from sbic.commands.replay import CountedLabel, Uncounted
from sbic.engine.labels import ClassEstimate
from sbic.infer.registry import STREAMED
from sbic.kafka.reader import Reader, parsed, reading
from sbic.kafka.writer import LabelSender, NumberedLabel, Sent, sending
from sbic.local.java import free_port
from sbic.local.processes import (
    are_settled,
    gateway_of,
    instances_of,
    opening,
    running,
    until_ready,
)
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.posteriors import Posterior, posterior_parser


class Scoreboard:
    """The pipeline's error, that of majority vote on the same labels, and the latency.

    Majority vote is taken on the labels that are counted in the posteriors read so far.

    >>> from sbic.kafka.writer import NumberedLabel
    >>> board = Scoreboard({"t1": 1})
    >>> board.error, board.majority_error  # before any label: a tie, which counts half
    (0.5, 0.5)
    >>> label = NumberedLabel("t1", "ann", 0)
    >>> board.sent(Sent(at=7.0, partition=0, first=5, labels=[label]), now=7.1)
    >>> board.learn(Posterior("t1", [0.6, 0.4], 0, 1, {"0": 5}), now=7.25)
    >>> board.error, board.majority_error, board.counted, board.latencies
    (1.0, 1.0, 1, [0.25])
    """

    def __init__(self, truth: Mapping[str, int], classes: int = 2) -> None:
        self.truth = np.array([*truth.values()])
        self.index = {task: number for number, task in enumerate(truth)}
        self.votes = np.zeros((len(truth), classes))
        self.curve = ErrorCurve(truth, classes)
        self.uncounted = Uncounted()
        self.counted = 0
        self.latencies: list[float] = []

    def sent(self, sent: Sent, now: float) -> None:
        """Add labels that were acknowledged."""
        self._count(self.uncounted.add(sent), now)

    def learn(self, posterior: Posterior, now: float) -> None:
        """Process a posterior that was read at the time `now`."""
        self.curve.learn(posterior)
        self._count(self.uncounted.learn(posterior), now)

    def _count(self, counted: Iterable[CountedLabel], now: float) -> None:
        for label, at in counted:
            self.votes[self.index[label.task], label.answer] += 1
            self.counted += 1
            self.latencies.append(now - at)

    @property
    def error(self) -> float:
        """The error of the pipeline's predictions."""
        return self.curve.error

    @property
    def majority_error(self) -> float:
        """The error of majority vote on the labels that the pipeline has counted."""
        return ClassEstimate(self.votes, is_probability=False).error(self.truth)

    @property
    def knows_all_tasks(self) -> bool:
        """Whether each task has a posterior."""
        return self.curve.tasks == len(self.index)

    @property
    def labels_in_posteriors(self) -> int:
        """The sum of the numbers of labels in all posteriors."""
        return self.curve.labels


# One of the projects of the demo: its instances, labels and posteriors.


PARSE = posterior_parser(SIGNS)
STALL_SECONDS = 60  # longer than a restart of an instance takes
MIRROR_SECONDS = 0.01  # labels given meanwhile are sent together
SETTLE_SECONDS = 30  # at most, until the posteriors are settled


class DemoProject:
    """Sends labels, reads posteriors, and keeps its scoreboard up to date.

    `moved` is called several times a second.
    """

    def __init__(
        self,
        board: Scoreboard,
        ports: Sequence[int],
        client: CrowdClient,
        sender: LabelSender,
        reader: Reader,
        moved: Callable[[], None],
    ) -> None:
        self.board = board
        self.client = client
        self._ports = ports
        self._sender = sender
        self._reader = reader
        self._moved = moved

    async def send(self, labels: Sequence[NumberedLabel]) -> None:
        """Send labels at full speed."""
        async for sent in self._sender.send_all(labels):
            self.board.sent(sent, monotonic())

    async def mirror(self, given: list[NumberedLabel], is_over: asyncio.Event) -> None:
        """Repeatedly send and clear the labels in `given`, until `is_over`."""
        while given or not is_over.is_set():
            portion, given[:] = given[:], []
            await self.send(portion)
            await asyncio.sleep(MIRROR_SECONDS)

    async def follow(self, counted: int) -> None:
        """Read posteriors until every task has one and this number of labels is counted."""
        last = monotonic()
        while self.board.counted < counted or not self.board.knows_all_tasks:
            if await self._learn():
                last = monotonic()
            if monotonic() - last > STALL_SECONDS:
                raise TimeoutError(f"no posterior for {STALL_SECONDS} seconds")

    async def settle(self) -> None:
        """Read posteriors until the instances report that they are settled."""
        deadline = monotonic() + SETTLE_SECONDS
        while monotonic() < deadline:
            if not await self._learn() and await asyncio.to_thread(are_settled, self._ports):
                return

    async def _learn(self) -> bool:
        """Read the next posteriors; returns whether there were any."""
        records = await self._reader.next(seconds=0.1)
        now = monotonic()
        for _, posterior in parsed(records, PARSE):
            self.board.learn(posterior, now)
        self._moved()
        return bool(records)


@asynccontextmanager
async def demo_project(
    settings: Settings, board: Scoreboard, ports: Sequence[int], moved: Callable[[], None]
) -> AsyncIterator[DemoProject]:
    """Connect to a project whose instances are running."""
    topic = Topics(settings).posteriors.name
    async with (
        crowd_client(settings) as client,
        sending(settings) as sender,
        reading(settings, topic, from_start=True) as reader,
    ):
        yield DemoProject(board, ports, client, sender, reader, moved)


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


class Scoreboards:
    """The scoreboards of the algorithms."""

    def __init__(self, truth: Mapping[str, int]) -> None:
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
class DemoResult:
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
        show: Callable[[Stage, Scoreboards], None],
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
        self.standing = Scoreboards(self.truth)
        self.stage = Stage("starting the instances")
        self._show = show
        self._shown = 0.0

    async def run(self) -> DemoResult:
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

    async def _measure(self, projects: list[DemoProject]) -> DemoResult:
        plan, standing = self.plan, self.standing
        workers = plan.draw_workers(NAME)
        first, *others = projects
        answered: set[tuple[str, str]] = set()
        to_mirror: list[list[NumberedLabel]] = [[] for _ in others]
        is_over = asyncio.Event()

        def given(sent: Sent) -> None:
            first.board.sent(sent, monotonic())
            answered.update((task, worker) for task, worker, _ in sent.labels)
            for labels in to_mirror:
                labels += sent.labels

        async def work() -> None:
            await crowd.work()
            is_over.set()

        crowd = CrowdAtWork(plan, self.truth, workers, first.client, given)
        self.stage = Stage(f"registering {len(self.truth):,} tasks")
        await self._stage(projects, (each.client.describe(self.truth) for each in projects))
        self.stage = Stage("workers request tasks and answer them", True, plan.labels)
        mirrors = (
            each.mirror(labels, is_over) for each, labels in zip(others, to_mirror, strict=True)
        )
        asked_seconds = await self._stage(projects, [work(), *mirrors])
        latency, assignment = times(first.board.latencies), times(crowd.waits)
        asked_errors = standing.errors
        labels = rush(self.rush_labels, self.truth, workers, answered, plan.seed)
        self.stage = Stage("the rest of the labels at once", labels=len(labels))
        rush_seconds = await self._stage(projects, (each.send(labels) for each in projects))
        for project in projects:
            await project.settle()
        count = plan.labels + len(labels)
        return DemoResult(
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


def times(seconds: list[float]) -> Times:
    """Return the median and the 99th percentile after the warm-up."""
    return Times(*np.percentile(seconds[int(len(seconds) * WARM_UP) :], [50, 99]).tolist())
