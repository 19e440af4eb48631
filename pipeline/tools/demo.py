"""The demonstration: a broker, the pipeline and a crowd, first at a steady rate, then in a rush."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np

from pipeline.broker.ports import HOST, free_port
from pipeline.settings import Settings
from pipeline.tools.crowd import Crowd
from pipeline.tools.instances import instances_of, running
from pipeline.tools.reading import Reader, reading
from pipeline.tools.scoreboard import Scoreboard
from pipeline.tools.sending import Label, LabelSender, sending
from pipeline.tools.watch import posteriors
from pipeline.topics import Topics

READY_SECONDS = 60
STALL_SECONDS = 60  # longer than it takes an instance that died to come back
WARM_UP = 0.2  # the share of the steady labels before latency is measured: Java is warming up


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


@dataclass(frozen=True)
class Result:
    """What came out."""

    labels: int
    labels_in_posteriors: int
    rate: float
    latency: tuple[float, float]
    rush_labels: int
    rush_seconds: float
    error: float
    majority_error: float


@dataclass(frozen=True)
class Demo:
    """Runs the crowd through instances on a broker that is there.

    `show` is called several times a second, while things move.
    """

    settings: Settings
    crowd: Crowd
    instances: int
    steady_labels: int
    rate: float
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
                return await self._measure()
        except TimeoutError as error:
            raise DemoFailed(str(error), log[-30:]) from None

    async def _ready(self, ports: list[int]) -> None:
        stage = Stage("starting the instances")
        board = Scoreboard(self.crowd)
        deadline = monotonic() + READY_SECONDS
        while not all([await asyncio.to_thread(is_ready, port) for port in ports]):
            if monotonic() > deadline:
                raise TimeoutError("the instances are not ready after a minute")
            self.show(stage, board)
            await asyncio.sleep(0.1)

    async def _measure(self) -> Result:
        board = Scoreboard(self.crowd)
        topic = Topics(self.settings).posteriors.name
        async with (
            sending(self.settings) as sender,
            reading(self.settings, topic, from_start=True) as reader,
        ):
            labels = self.crowd.labels
            warm = int(self.steady_labels * WARM_UP)
            steady = Stage(f"a crowd that gives {self.rate:,.0f} labels per second", is_steady=True)
            await self._stage(steady, sender, reader, board, labels[:warm], self.rate)
            board.latencies.clear()
            measured = labels[warm : self.steady_labels]
            await self._stage(steady, sender, reader, board, measured, self.rate)
            median, high = np.percentile(board.latencies, [50, 99]).tolist()
            rush = Stage("the rest of the labels at once")
            rest = labels[self.steady_labels :]
            seconds = await self._stage(rush, sender, reader, board, rest, None)
        return Result(
            labels=len(labels),
            labels_in_posteriors=board.labels_in_posteriors(),
            rate=self.rate,
            latency=(median, high),
            rush_labels=len(rest),
            rush_seconds=seconds,
            error=board.error,
            majority_error=board.majority_error,
        )

    async def _stage(
        self,
        stage: Stage,
        sender: LabelSender,
        reader: Reader,
        board: Scoreboard,
        labels: list[Label],
        rate: float | None,
    ) -> float:
        """Send labels and follow the posteriors until all are counted; the seconds it took."""
        start = monotonic()
        if not stage.labels:
            stage.started, stage.counted_before = start, board.counted
        stage.labels += len(labels)
        following = asyncio.create_task(self._follow(stage, reader, board, len(labels)))
        try:
            async for sent in sender.send_all(labels, rate):
                board.sent(sent, monotonic())
            await following
        finally:
            following.cancel()
        return monotonic() - start

    async def _follow(self, stage: Stage, reader: Reader, board: Scoreboard, labels: int) -> None:
        target = board.counted + labels
        moved = shown = monotonic()
        while board.counted < target:
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


def is_ready(port: int) -> bool:
    """Whether the instance with this web port says so."""
    try:
        with urlopen(f"http://{HOST}:{port}/readyz", timeout=2) as response:
            return bool(response.status == 200)
    except (URLError, ConnectionError, TimeoutError):
        return False
