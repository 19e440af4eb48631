"""The demonstration: a broker, the pipeline and a crowd, first in a closed loop, then in a rush."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from pipeline.broker.ports import free_port
from pipeline.settings import Settings
from pipeline.tools.asking import Asker, NoAnswer, asking
from pipeline.tools.crowd_at_work import CrowdAtWork, Plan
from pipeline.tools.instances import instances_of, is_ready, running
from pipeline.tools.reading import Reader, reading
from pipeline.tools.rush import rush
from pipeline.tools.scoreboard import Scoreboard
from pipeline.tools.sending import Label, LabelSender, Sent, sending
from pipeline.tools.watch import posteriors
from pipeline.topics import Topics

READY_SECONDS = 60
STALL_SECONDS = 60  # longer than it takes an instance that died to come back
WARM_UP = 0.2  # the share of the first labels before latency is measured: Java is warming up
NAME = "demo"


class DemoFailed(Exception):
    """The pipeline did not do its part; the log lines of the instances say why."""

    def __init__(self, problem: str, log: list[str]) -> None:
        super().__init__(problem)
        self.log = log


@dataclass
class Stage:
    """What is going on, for the screen."""

    title: str
    is_steady: bool = False
    labels: int = 0
    started: float = 0.0
    counted_before: int = 0


Times = tuple[float, float]
"""The median and the 99th percentile, in seconds."""


@dataclass(frozen=True)
class Result:
    """What came out."""

    labels: int
    labels_in_posteriors: int
    asked_labels: int
    asked_seconds: float
    assignment: Times
    latency: Times
    asked_error: float
    asked_majority_error: float
    rush_labels: int
    rush_seconds: float
    error: float
    majority_error: float


@dataclass(frozen=True)
class Demo:
    """Runs the crowd through instances on a broker that is there.

    First the workers ask what to answer and do so, as the plan says; then `rush_labels` labels
    more come at once. `show` is called several times a second, while things move.
    """

    settings: Settings
    plan: Plan
    instances: int
    rush_labels: int
    show: Callable[[Stage, Scoreboard], None]

    async def run(self) -> Result:
        """All of it; on return the instances have ended."""
        log: list[str] = []
        ports = [free_port() for _ in range(self.instances)]
        commands = instances_of(self.settings, ports)

        def keep(name: str, line: str) -> None:
            log.append(f"{name} | {line}")

        try:
            async with running(commands, log=keep, say=keep):
                await self._ready(ports)
                topic = Topics(self.settings).posteriors.name
                async with (
                    asking(self.settings) as asker,
                    sending(self.settings) as sender,
                    reading(self.settings, topic, from_start=True) as reader,
                ):
                    return await self._measure(asker, sender, reader)
        except (TimeoutError, NoAnswer) as error:
            raise DemoFailed(str(error), log[-30:]) from None

    async def _ready(self, ports: list[int]) -> None:
        stage = Stage("starting the instances")
        board = Scoreboard({NAME: 1})
        deadline = monotonic() + READY_SECONDS
        while not all([await asyncio.to_thread(is_ready, port) for port in ports]):
            if monotonic() > deadline:
                raise TimeoutError("the instances are not ready after a minute")
            self.show(stage, board)
            await asyncio.sleep(0.1)

    async def _measure(self, asker: Asker, sender: LabelSender, reader: Reader) -> Result:
        plan = self.plan
        truth, workers = plan.draw_truth(NAME), plan.draw_workers(NAME)
        board = Scoreboard(truth)
        answered: set[tuple[str, str]] = set()

        def given(sent: Sent) -> None:
            board.sent(sent, monotonic())
            answered.update((task, worker) for task, worker, _ in sent.labels)

        registering = Stage(f"registering {len(truth):,} tasks")
        await self._stage(registering, reader, board, asker.describe(truth))
        crowd = CrowdAtWork(plan, truth, workers, asker, given)
        steady = Stage("workers ask which task to answer, and answer it", True, plan.labels)
        async with following(asker):
            asked_seconds = await self._stage(steady, reader, board, crowd.work())
        latency, assignment = times(board.latencies), times(crowd.waits)
        asked_error, asked_majority_error = board.error, board.majority_error
        labels = rush(self.rush_labels, truth, workers, answered, plan.seed)
        at_once = Stage("the rest of the labels at once", labels=len(labels))
        sent_at_once = self._send(sender, board, labels)
        rush_seconds = await self._stage(at_once, reader, board, sent_at_once)
        return Result(
            labels=plan.labels + len(labels),
            labels_in_posteriors=board.labels_in_posteriors(),
            asked_labels=plan.labels,
            asked_seconds=asked_seconds,
            assignment=assignment,
            latency=latency,
            asked_error=asked_error,
            asked_majority_error=asked_majority_error,
            rush_labels=len(labels),
            rush_seconds=rush_seconds,
            error=board.error,
            majority_error=board.majority_error,
        )

    async def _send(self, sender: LabelSender, board: Scoreboard, labels: list[Label]) -> None:
        async for sent in sender.send_all(labels):
            board.sent(sent, monotonic())

    async def _stage(
        self, stage: Stage, reader: Reader, board: Scoreboard, work: Coroutine[Any, Any, None]
    ) -> float:
        """Work, and follow the posteriors until all is counted; the seconds it took."""
        stage.started, stage.counted_before = monotonic(), board.counted
        follow = asyncio.create_task(self._follow(stage, reader, board))
        try:
            await work
            await follow
        finally:
            follow.cancel()
        return monotonic() - stage.started

    async def _follow(self, stage: Stage, reader: Reader, board: Scoreboard) -> None:
        target = board.counted + stage.labels
        moved = shown = monotonic()
        while board.counted < target or len(board.known) < len(board.index):
            records = await reader.next(seconds=0.1)
            now = monotonic()
            for posterior in posteriors(records):
                board.learn(posterior, now)
            moved = now if records else moved
            if now - moved > STALL_SECONDS:
                raise TimeoutError(f"no posterior for {STALL_SECONDS} seconds")
            if now - shown > 0.1:
                shown = now
                self.show(stage, board)
        self.show(stage, board)


@asynccontextmanager
async def following(asker: Asker) -> AsyncIterator[None]:
    """Let the asker hear of assignments while the block runs."""
    task = asyncio.create_task(asker.follow())
    try:
        yield
    finally:
        task.cancel()


def times(seconds: list[float]) -> Times:
    """Of what came after the warm-up."""
    median, high = np.percentile(seconds[int(len(seconds) * WARM_UP) :], [50, 99]).tolist()
    return median, high
