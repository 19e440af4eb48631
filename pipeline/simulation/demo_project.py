"""One of the projects of the demo: its instances, labels and posteriors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

from pipeline.kafka.asking import Asker, asking
from pipeline.kafka.reading import Reader, reading
from pipeline.kafka.sending import Label, LabelSender, sending
from pipeline.local.instances import are_settled, is_ready
from pipeline.settings import Settings
from pipeline.simulation.scoreboard import Scoreboard
from pipeline.status.watch import posteriors
from pipeline.topics import Topics

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
        asker: Asker,
        sender: LabelSender,
        reader: Reader,
        moved: Callable[[], None],
    ) -> None:
        self.board = board
        self.asker = asker
        self._ports = ports
        self._sender = sender
        self._reader = reader
        self._moved = moved

    async def send(self, labels: Sequence[Label]) -> None:
        """Send labels at full speed."""
        async for sent in self._sender.send_all(labels):
            self.board.sent(sent, monotonic())

    async def mirror(self, given: list[Label], is_over: asyncio.Event) -> None:
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
        for posterior in posteriors(records):
            self.board.learn(posterior, now)
        self._moved()
        return bool(records)


@asynccontextmanager
async def demo_project(
    settings: Settings, board: Scoreboard, ports: Sequence[int], moved: Callable[[], None]
) -> AsyncIterator[DemoProject]:
    """A connected project whose instances are running."""
    topic = Topics(settings).posteriors.name
    async with (
        asking(settings) as asker,
        sending(settings) as sender,
        reading(settings, topic, from_start=True) as reader,
    ):
        yield DemoProject(board, ports, asker, sender, reader, moved)


async def until_ready(ports: Sequence[int], seconds: float, moved: Callable[[], None]) -> None:
    """Wait until the instances with these ports are ready."""
    deadline = monotonic() + seconds
    while not all([await asyncio.to_thread(is_ready, port) for port in ports]):
        if monotonic() > deadline:
            raise TimeoutError(f"the instances are not ready after {seconds:.0f} seconds")
        moved()
        await asyncio.sleep(0.1)
